"""What the page's server answers, as an OpenAPI document."""

from typing import Any

from app import __version__

_PARTITION = {
    "name": "partition", "in": "query", "schema": {"type": "integer", "minimum": 0},
    "description": "One partition alone; all of them where it is left out.",
}  # fmt: skip
_FROM, _TO = (
    {"name": name, "in": "query", "schema": {"type": "integer"}, "description": f"{what}, in ms since 1970."}
    for name, what in (("from", "Begin"), ("to", "End"))
)
_STREAM = {"name": "stream", "in": "path", "required": True, "schema": {"type": "string"}, "description": "Its name."}


def _get(summary: str, *parameters: dict[str, Any], kind: str = "application/json") -> dict[str, Any]:
    codes = {"200": "It.", "400": "A parameter is wrong.", "404": "There is no such thing."}
    answers: dict[str, Any] = {code: {"description": text} for code, text in codes.items()}
    answers["200"]["content"] = {kind: {}}
    return {"get": {"summary": summary, "parameters": list(parameters), "responses": answers}}


def _post(summary: str, fields: dict[str, Any], required: list[str], *parameters: dict[str, Any]) -> dict[str, Any]:
    token = {"name": "X-Riparian-Token", "in": "header", "required": True, "schema": {"type": "string"}}
    schema = {"type": "object", "properties": fields, "required": required, "additionalProperties": False}
    found: dict[str, Any] = _get(summary, *parameters, token, kind="application/x-ndjson")["get"]
    found["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    found["responses"]["403"] = {"description": "The token is wrong, or the request is of another page."}
    return {"post": found}


def _ask(summary: str, x: str, *parameters: dict[str, Any]) -> dict[str, Any]:
    """A request with a body that changes nothing."""
    found: dict[str, Any] = _get(summary, *parameters)["get"]
    schema = {"type": "object", "properties": {"x": {"type": "object", "description": x}}, "required": ["x"]}
    found["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return {"post": found}


def document() -> dict[str, Any]:
    """The document."""
    at = "/api/streams/{stream}"
    place = [
        {"name": "partition", "in": "path", "required": True, "schema": {"type": "integer", "minimum": 0}},
        {"name": "role", "in": "path", "required": True, "schema": {"type": "string"}},
    ]
    id_ = {"name": "id", "in": "query", "required": True, "schema": {"type": "string", "maxLength": 1024}}
    last = {
        "name": "last", "in": "query", "schema": {"type": "integer", "minimum": 1},
        "description": "How many seconds to look back; to the beginning of the topic where it is left out.",
    }  # fmt: skip
    n = {"name": "n", "in": "query", "schema": {"type": "integer", "minimum": 10, "maximum": 2000}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Riparian's live page", "version": __version__},
        "paths": {
            "/health": _get("Whether Kafka answers."),
            "/api/streams": _get("All streams of the page, with their verdict and figures."),
            at: _get("A stream now: verdict, figures, models, partitions, newest events.", _STREAM, _PARTITION),
            f"{at}/live": _get(
                "The same as server-sent events, whenever it changes.", _STREAM, _PARTITION, kind="text/event-stream"
            ),
            f"{at}/history": _get("Series over time, about n steps.", _STREAM, _PARTITION, _FROM, _TO, n),
            f"{at}/events": _get("What happened: drift, fresh models, assignments.", _STREAM, _PARTITION, _FROM, _TO),
            f"{at}/comparison": _get(
                "Each challenger beside the champion, by partition and of all: mean losses, how much lower the "
                "challenger's is, an interval that holds however often one looks, since when; the rule that promotes, "
                "and what it proposes.",
                _STREAM,
                _PARTITION,
            ),
            f"{at}/distances": _get(
                "How far features and predictions are from their references, where drift.distributions watches them.",
                _STREAM,
                _PARTITION,
            ),
            f"{at}/deadletters": _get("Dead letters: reasons by hour, and the last hundred.", _STREAM, _FROM),
            f"{at}/predictions": _get(
                "A prediction by its id, the label that came, and the paths through the trees: lines of JSON, each how "
                "far the search is, and the last one `found` or `error`.",
                _STREAM,
                id_,
                last,
                kind="application/x-ndjson",
            ),
            f"{at}/deadletters/retry": _post(
                "What riparian deadletters retry does, where riparian ui runs with --actions: write the records of "
                "dead letters of a reason, or of one at PARTITION/OFFSET of the dead letters, to the end of their "
                "topics once more. dry_run (true unless said otherwise) says what would be done. Lines of JSON, at "
                "last `done` or `error`. Origin has to be this page.",
                {"reason": {"type": "string"}, "at": {"type": "string"}, "dry_run": {"type": "boolean"}},
                [],
                _STREAM,
            ),
            f"{at}/commands": _post(
                "A command to the stream, where riparian ui runs with --actions: lines of JSON, the `answer` of each "
                "partition, and at last `done` or `error`. Origin has to be this page.",
                {name: {"type": "string"} for name in ("command", "model", "by", "stream")},
                ["command"],
                _STREAM,
            ),
            f"{at}/partitions/{{partition}}/predict": _ask(
                "What each model of the last checkpoint says of an instance that is typed; nothing is learned or sent.",
                "Feature -> value, as in a record. What is left out is missing.",
                _STREAM,
                place[0],
            ),
            f"{at}/partitions/{{partition}}/models/{{role}}": _get(
                "A model as its last checkpoint has it: trees, what they look at, and an outline.", _STREAM, *place
            ),
        },
    }
