"""Write again what the pages have from the code: `python -m docs`. A test fails where a page is out of date.

A page names such a part between `<!-- generated: NAME -->` and `<!-- end -->`, with NAME one of PARTS; the rest of the
page is written by hand. `<!-- figures: NAME -->` is filled from benchmarks/results/NAME.json: its tables, and what was
run when; `NAME#2` is the second table alone, `NAME#run` what was run.
"""

import json
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from inspect import cleandoc, isclass, signature
from pathlib import Path
from typing import Any, get_args

import click
import yaml
from pydantic import BaseModel

import riparian
from riparian.app.cli import COMMANDS, GROUPS, cli
from riparian.app.kafka.access.acls import RIGHTS
from riparian.app.stream_file.spec import Spec
from riparian.app.worker.exposition import metric_names
from riparian.models.drift import DETECTORS
from riparian.models.entry import Parameter
from riparian.models.registry import REGISTRY
from riparian.models.streams.registry import REGISTRY as STREAMS
from riparian.topics.commands import EventRecord
from riparian.topics.records import REASONS, DriftRecord, MetricsRecord, PartitionRecord, Shift

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yaml"
MARKED = re.compile(r"(<!-- (generated|figures): ([\w.#-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in (head, *rows)]
    return "\n".join([lines[0], "|---" * len(head) + "|", *lines[1:]])


def sentence(text: str) -> str:
    """What a registry says of an entry, as a sentence."""
    text = text[:1].upper() + text[1:]
    return text if text.endswith(".") else f"{text}."


# stream file ---------------------------------------------------------------------------------------------------------


def sections() -> Iterator[tuple[str, type[BaseModel]]]:
    """Each part of the file by its place, the whole first."""
    plural = {"features": "features.NAME", "keys": "keys.NAME", "challengers": "champion, challengers.NAME"}
    yield "", Spec
    for name, field in Spec.model_fields.items():
        for model in models_in(field.annotation) if name != "champion" else []:
            place = plural.get(name, name)
            yield place, model
            for part, inner in model.model_fields.items():
                for within in models_in(inner.annotation):
                    yield f"{place}.{part}", within


def models_in(annotation: Any) -> list[type[BaseModel]]:
    if isclass(annotation) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for argument in get_args(annotation) for model in models_in(argument)]


# Where a section's use is shown.
GUIDES = {
    "learning": "run/scale.md#what-learns",
    "rekey": "build/topics.md#topics-with-other-keys",
    "record": "build/topics.md",
    "label": "build/late-labels.md",
    "features.NAME": "build/topics.md",
    "keys.NAME": "build/keys.md",
    "decision": "build/rare-classes.md",
    "champion, challengers.NAME": "concepts/models.md",
    "join": "build/late-labels.md",
    "checkpoint": "run/recover.md",
    "drift": "build/drift.md",
    "promotion": "build/promotion.md",
    "metrics": "run/monitor.md",
    "predictions": "build/confidence.md",
    "codec": "reference/formats.md",
    "kafka": "run/connect.md",
    "registry": "reference/formats.md",
}


def stream_file() -> str:
    """A table for each part of the file: name, type, default and meaning of each field."""
    parts = []
    for place, model in sections():
        guide = f" [Guide](../{GUIDES[place]})." if place in GUIDES else ""
        about = f"## `{place}`\n\n{' '.join((model.__doc__ or '').split())}{guide}"
        heading = about if place else "## Fields of the stream"
        parts.append(f"{heading}\n\n{table(('field', 'type', 'default', 'meaning'), fields(model))}")
    return "\n\n".join(parts)


def fields(model: type[BaseModel]) -> Iterator[tuple[str, str, str, str]]:
    schema = model.model_json_schema(by_alias=True)
    properties = schema.get("anyOf", [schema])[-1]["properties"]  # the last: of a short form, all fields
    for name, field in model.model_fields.items():
        shown = field.alias or name
        yield f"`{shown}`", kind(properties[shown]), default(model, name), field.description or ""


def kind(schema: dict[str, Any]) -> str:
    """The type of a field, with its range or choices."""
    if "anyOf" in schema:
        kinds = [kind(option) for option in schema["anyOf"] if option.get("type") != "null"]
        return "path" if kinds == ["text", "list"] else " or ".join(dict.fromkeys(kinds))
    if "$ref" in schema:
        return "section"
    if "enum" in schema or "const" in schema:
        return ", ".join(f"`{choice}`" for choice in schema.get("enum", [schema.get("const")]))
    if "(ms|s|m|h|d)" in schema.get("pattern", ""):
        return "duration"
    names = {"string": "text", "integer": "integer", "number": "number", "boolean": "boolean", "array": "list"}
    return " ".join(
        [names.get(str(schema["type"]), "mapping" if schema["type"] == "object" else "text"), *limits(schema)]
    )


def limits(schema: dict[str, Any]) -> list[str]:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None:
        return [f"{low:,} to {high:,}" if high is not None else f"from {low:,}"]
    if "exclusiveMinimum" in schema:
        low, below = schema["exclusiveMinimum"], schema.get("exclusiveMaximum")
        return [f"above {low}, to {high}" if below is None else f"between {low} and {below}"]
    return []


def default(model: type[BaseModel], name: str) -> str:
    field = model.model_fields[name]
    if field.is_required():
        return "required"
    if field.default_factory is not None or "Default:" in (field.description or ""):
        return ""
    return f"`{json.dumps(field.default)}`".replace("`null`", "none")


# registries ----------------------------------------------------------------------------------------------------------


def written(parameter: Parameter) -> str:
    """A parameter and its default, as in a stream file."""
    return f"`{parameter.name}: {json.dumps(parameter.default)}`".replace('"', "")


def limit(parameter: Parameter) -> str:
    if parameter.choices:
        return f" ({', '.join(f'`{choice}`' for choice in parameter.choices)})"
    bounds = parameter.range.replace(" .. ", "…").replace(">= ", "from ").replace("1e+09", "10⁹")
    return "" if parameter.type is bool or bounds == "any" else f" ({bounds})"


def parameters(given: Iterable[Parameter]) -> str:
    return "\n".join(f"- {written(p)}{limit(p)}: {p.text}" for p in given)


def citation(paper: str) -> str:
    """Authors, where and when, without the title, if it is one paper."""
    found = re.fullmatch(r"([^:;]+): [^;]+[.?!] ([^:;]+?)\.?", paper)
    several = len(re.findall(r"\b(?:19|20)\d\d\b", paper)) > 1
    return f"{found[1]}, {found[2]}." if found and not several else sentence(paper)


def learners() -> str:
    """A section for each learner; what several have alike stands in one table behind them."""

    def alike(parameter: Parameter) -> tuple[Any, ...]:
        return (parameter.name, parameter.type, parameter.range, parameter.text)

    known = Counter(alike(p) for entry in REGISTRY.values() for p in entry.parameters)
    shared = {alike(p): p for entry in REGISTRY.values() for p in entry.parameters if known[alike(p)] > 1}
    usual = {
        each: Counter(p.default for e in REGISTRY.values() for p in e.parameters if alike(p) == each).most_common(1)[0][
            0
        ]
        for each, p in shared.items()
        if p.type is not dict
    }
    parts = []
    for entry in REGISTRY.values():
        own = [p for p in entry.parameters if alike(p) not in shared]
        others = [
            f"`{p.name}`" if usual.get(alike(p)) == p.default else written(p)
            for p in entry.parameters
            if alike(p) in shared
        ]
        lines = [f"### `{entry.name}`", f"{sentence(entry.text)} *{', '.join(entry.tasks)}.* {citation(entry.paper)}"]
        if others:
            lines.append(f"[Common](#common-parameters): {', '.join(others)}.")
        if own:
            lines.append(parameters(own))
        parts.append("\n\n".join(lines))
    common = [
        p._replace(default=usual.get(each, p.default)) for each, p in sorted(shared.items(), key=lambda s: s[0][0])
    ]
    return "\n\n".join([*parts, "## Common parameters", parameters(common)])


def detectors() -> str:
    parts = []
    for entry in DETECTORS.values():
        errors = " Of errors alone." if entry.errors_only else ""
        parts.append(f"### `{entry.name}`\n\n{citation(entry.paper)}{errors}\n\n{parameters(entry.parameters)}")
    return "\n\n".join(parts)


def streams() -> str:
    parts = []
    for entry in STREAMS.values():
        source = entry.source()
        numeric, classes = source.n_values.count(0), source.n_classes
        counts = [(numeric, "numeric"), (len(source.names) - numeric, "nominal")]
        features = ", ".join(f"{count} {which}" for count, which in counts if count)
        of = f"{classes} classes" if classes else "regression"
        text = f"### `{entry.name}`\n\n{sentence(entry.text)} Features: {features}; {of}. {citation(entry.paper)}"
        parts.append(f"{text}\n\n{parameters(entry.parameters)}" if entry.parameters else text)
    return "\n\n".join(parts)


# metrics -------------------------------------------------------------------------------------------------------------

# The first metric of each group.
FIRST = {
    metric_names.INSTANCES: "Records",
    metric_names.WAITED: "Latency and lag",
    metric_names.BATCH: "Work",
    metric_names.SCORED: "Quality",
    metric_names.DRIFTS: "Drift",
    metric_names.NODES: "State",
    metric_names.FENCED: "Of a worker",
}


def metrics() -> str:
    alerts: dict[str, list[str]] = {}
    for group in yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]:
        for rule in group["rules"]:
            for name in dict.fromkeys(re.findall(r"riparian_\w+", rule["expr"])):
                link = f"[{rule['alert']}]({RUNBOOK}#{rule['alert'].lower()})"
                alerts.setdefault(re.sub(r"_(bucket|sum|count)$", "", name), []).append(link)
    parts: list[str] = []
    rows: list[tuple[str, ...]] = []

    def ended() -> None:
        if rows:
            parts.append(table(("metric", "type", "labels", "meaning", "alerts"), rows))
            rows.clear()

    for name, metric in [*metric_names.METRICS.items(), *metric_names.OF_WORKER.items()]:
        if name in FIRST:
            ended()
            parts.append(f"## {FIRST[name]}")
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        rows.append((f"`{name}`", metric.kind, labels, metric.text, " ".join(dict.fromkeys(alerts.get(name, [])))))
    ended()
    return "\n\n".join(parts)


RUNBOOK = "../run/runbook.md"


# commands ------------------------------------------------------------------------------------------------------------


def commands() -> str:
    """A section for each command, without the options that most have; these stand first, once."""
    context = click.Context(cli)
    found = {name: [*leaves(("riparian", name), cli.get_command(context, name))] for name in COMMANDS}
    each = [command for some in found.values() for _, command in some]
    known = Counter(option for command in each for option in map(described, options(command)))
    common = [option for option, times in known.items() if times > len(each) / 4]
    parts = ["## Options that most commands have", "\n".join(f"- {option}" for option in common)]
    for heading, names in GROUPS.items():
        parts.append(f"## {heading}")
        parts += [section(words, command, common) for name in names for words, command in found[name]]
    return "\n\n".join(parts)


def section(words: Sequence[str], command: click.Command, common: Sequence[str]) -> str:
    """What --help has of a command, but for its common options."""
    usage = " ".join([*words, *command.collect_usage_pieces(click.Context(command))])
    own = [f"- {option}" for option in map(described, options(command)) if option not in common]
    lines = [f"### `{' '.join(words)}`", f"```text\n{usage}\n```", *paragraphs(command.help or ""), "\n".join(own)]
    return "\n\n".join(filter(None, lines))


def leaves(words: tuple[str, ...], command: click.Command | None) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if isinstance(command, click.Group):
        for name, each in command.commands.items():
            yield from leaves((*words, name), each)
    elif command is not None:
        yield words, command


def options(command: click.Command) -> list[click.Option]:
    return [option for option in command.params if isinstance(option, click.Option) and not option.hidden]


def described(option: click.Option) -> str:
    """An option as --help has it."""
    names, text = option.get_help_record(click.Context(click.Command("riparian"))) or ("", "")
    return f"`{names}`: {text}".replace("  [", " [")


def paragraphs(text: str) -> Iterator[str]:
    r"""Those of a docstring; one that begins with \b is an example, as it stands."""
    for paragraph in re.split(r"\n\s*\n", cleandoc(text).partition("\f")[0]):
        if paragraph.startswith("\b"):
            yield f"```text\n{textwrap.dedent(paragraph[1:].strip(chr(10)))}\n```"
        elif paragraph.strip():
            yield " ".join(paragraph.split())


# access lists --------------------------------------------------------------------------------------------------------


def acls() -> str:
    """What each command needs, a row for all that need the same."""
    alike: dict[tuple[tuple[str, tuple[str, ...]], ...], list[str]] = {}
    for command, rights in RIGHTS.items():
        alike.setdefault(tuple(rights.items()), []).append(command)
    rows = []
    for rights, names in alike.items():
        on: dict[tuple[str, ...], list[str]] = {}
        for role, operations in rights:
            on.setdefault(operations, []).append(role)
        cell = "; ".join(f"**{', '.join(operations)}** on {', '.join(roles)}" for operations, roles in on.items())
        rows.append((", ".join(f"`{name}`" for name in names), cell))
    return table(("command", "rights"), rows)


# records -------------------------------------------------------------------------------------------------------------


def reasons() -> str:
    return table(("reason", "the record"), ((f"`{name}`", text) for name, text in REASONS.items()))


def described_fields(record: type) -> str:
    """The fields of a record, as its docstring has them: `name : meaning`, or `one, other : meaning`."""
    doc = cleandoc(record.__doc__ or "").replace("Attributes\n----------\n", "")
    # The paragraph of the fields, and what stands before it.
    doc = " ".join(re.split(r"\n\n(?!\w+(?:, \w+)* : )", doc)[0].split()).replace(" -> ", " to ")
    found = re.split(r"(?:^|(?<=[\s.]))(\w+(?:, \w+)*) : ", re.sub(r"\bNone\b", "absent", doc))
    rows = (
        (f"`{names.replace(', ', '`, `')}`", text.strip().removesuffix("."))
        for names, text in zip(found[1::2], found[2::2], strict=True)
    )
    return table(("field", "meaning"), rows)


# Python --------------------------------------------------------------------------------------------------------------


def python() -> str:
    """What `import riparian` has: arguments, and what docstrings say before their sections."""
    parts = []
    for name in riparian.__all__:
        found = getattr(riparian, name)
        lines = [f"### `{name}`"]
        if callable(found):
            lines += [f"```text\n{name}{arguments(found)}\n```", first(found.__doc__)]
            own = [one for one in found.__mro__ if one.__module__.startswith("riparian.")] if isclass(found) else []
            methods = {of: each for one in own[::-1] for of, each in vars(one).items()}.items()
            public = [(of, each) for of, each in methods if of[0] != "_" and callable(each) and each.__doc__]
            lines += ["\n".join(f"- `{of}{arguments(each)}`: {first(each.__doc__)}" for of, each in public)]
        else:
            lines.append(f"`{found!r}`, an operation of a program.")
        parts.append("\n\n".join(filter(None, lines)))
    return "\n\n".join(parts)


def arguments(function: Any) -> str:
    """Names and defaults, without types."""
    shown = []
    for name, argument in signature(function).parameters.items():
        if name != "self":
            stars = {argument.VAR_POSITIONAL: "*", argument.VAR_KEYWORD: "**"}.get(argument.kind, "")
            if argument.kind == argument.KEYWORD_ONLY and "*" not in shown:
                shown.append("*")
            shown.append(f"{stars}{name}" + ("" if argument.default is argument.empty else f"={argument.default!r}"))
    return f"({', '.join(shown)})"


def first(doc: str | None) -> str:
    """The beginning of a docstring, up to the end of what it says in short."""
    return " ".join(re.split(r"(?<=\.)\s|; |: in |, where ", cleandoc(doc or "") + " ")[0].split())


# figures -------------------------------------------------------------------------------------------------------------


def figures(name: str) -> str:
    """What a run left in benchmarks/results/NAME.json: its tables, and where and when they were made."""
    name, _, which = name.partition("#")
    run = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    if which.isdecimal():
        found = list(tables(run["figures"]))
        if len(found) < int(which):
            raise ValueError(f"a page shows table {which} of {name}.json, which has {len(found)}")
        return found[int(which) - 1]
    made = [("run", f"`benchmarks/results/{name}.json`" + ("" if run["seed"] is None else f", seed {run['seed']}"))]
    if run.get("command"):
        made.append(("command", f"`{run['command']}`"))
    made.append(("day, commit", f"{run['ended'][:10]}, `{run['commit']}`"))
    if "taken" in run:
        made.append(("taken over", run["taken"]))
    else:
        machine = run["machine"]
        made.append(("machine", f"{machine['cores']} cores ({machine['processor']}), load {machine['load']}"))
    return "\n\n".join([*([] if which else tables(run["figures"])), table(("", ""), made)])


def tables(found: Any) -> Iterator[str]:
    """Tables of a benchmark, a list of records, a record each contestant, or counts."""
    if isinstance(found, list):
        yield table([*found[0]], ([shown(cell) for cell in row.values()] for row in found))
    elif "tables" in found:
        for each in found["tables"]:
            yield table(each["heads"], each["rows"])
    elif "rows" in found or "means" in found:
        yield from tables(found.get("rows", found.get("means")))
    elif "partitions" in found:
        counts = [name for name in found["partitions"][0] if name.startswith("n_")]
        rows = [
            *((kind, shown(n)) for kind, n in found["faults"].items()),
            *((name.removeprefix("n_"), shown(sum(one[name] for one in found["partitions"]))) for name in counts),
            ("fenced", shown(found["fenced"])),
            ("passed", "yes" if found["passed"] else "no"),
        ]
        yield table(("what", "count"), rows)
    elif all(isinstance(row, dict) and not any(map(nested, row.values())) for row in found.values()):
        yield from tables([{"": name} | row for name, row in found.items()])
    else:
        yield table(("what", "figure"), ((name, shown(value)) for name, value in leaves_of(found)))


def nested(value: Any) -> bool:
    return isinstance(value, dict | list)


def leaves_of(found: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Figures within figures, by their names."""
    if not nested(found):
        yield name, found
    elif isinstance(found, list) and not any(map(nested, found)):
        yield name, ", ".join(map(shown, found))
    else:
        for key, value in found.items() if isinstance(found, dict) else enumerate(found):
            yield from leaves_of(value, f"{name}, {key}".removeprefix(", "))


def shown(cell: Any) -> str:
    return f"{cell:,}" if isinstance(cell, int) else f"{cell:,.4g}" if isinstance(cell, float) else str(cell)


# pages ---------------------------------------------------------------------------------------------------------------

PARTS: dict[str, Callable[[], str]] = {
    part.__name__.replace("_", "-"): part
    for part in (stream_file, learners, detectors, streams, metrics, commands, acls, reasons, python)
}
PARTS |= {
    re.sub(r"(?<!^)(?=[A-Z])", "-", record.__name__).lower(): partial(described_fields, record)
    for record in (MetricsRecord, PartitionRecord, DriftRecord, Shift, EventRecord)
}


def part(how: str, name: str) -> str:
    return PARTS[name]() if how == "generated" else figures(name)


def refreshed(text: str) -> str:
    """A page with its marked parts made anew."""
    return MARKED.sub(lambda found: f"{found[1]}\n{part(found[2], found[3])}\n\n{found[4]}", text)


def pages() -> list[Path]:
    """Those that have such parts."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in found if MARKED.search(page.read_text(encoding="utf-8"))]


def main() -> None:
    for page in pages():
        text = page.read_text(encoding="utf-8")
        page.write_text(refreshed(text), encoding="utf-8")


if __name__ == "__main__":
    main()
