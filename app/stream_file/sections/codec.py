"""The formats of the records, and the registry of their schemas: `codec` and `registry` of a stream file."""

from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator

from riparian.app.references import is_reference
from riparian.app.stream_file.durations import duration
from riparian.app.stream_file.sections.base import Section
from riparian.app.stream_file.spec_errors import found
from riparian.topics.codecs import CODECS, REGISTERED, Formats


def _check_format(value: Any) -> Any:
    if not isinstance(value, str) or value not in CODECS:
        known = " or ".join(f'"{name}"' for name in CODECS)
        raise ValueError(f"expected {known}, found {found(value)}; write {known}")
    return value


def codec_form(value: Any) -> Any:
    """One format for all records as one for each kind."""
    if isinstance(value, dict | CodecSpec):
        return value
    return dict.fromkeys(Formats._fields, _check_format(value))


_Format = Annotated[Any, BeforeValidator(_check_format), WithJsonSchema({"enum": list(CODECS)})]


class CodecSpec(Section):
    """The formats of the records. `codec: json` for all of them."""

    features: _Format = Field(default="json", description="Format of the feature records.")
    labels: _Format = Field(default="json", description="Format of the label records.")
    predictions: _Format = Field(default="json", description="Format of the predictions.")

    def formats(self) -> Formats:
        return Formats(self.features, self.labels, self.predictions)

    def registered(self) -> dict[str, str]:
        """Kind of record -> its format, where records of it name a schema of a registry."""
        return {kind: name for kind, name in self.formats()._asdict().items() if name in REGISTERED}

    def plain(self) -> Any:
        """The name of the format where all are of one; else role -> name."""
        formats = self.formats()
        return formats.features if len(set(formats)) == 1 else formats._asdict()


def _check_url(url: str) -> str:
    """One address or several, with commas between."""
    checked = [_checked(one.strip()) for one in url.split(",")]
    if len({urlsplit(one).scheme for one in checked}) > 1:
        raise ValueError(f'expected addresses that are all of http or all of https, found "{url}"; correct them')
    return ",".join(checked)


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - raises where it is none
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f'expected the address of a registry, found "{url}"; write it like https://registry:8081')
    if parts.username is not None or parts.password is not None:
        raise ValueError("expected an address without user and password; give them as username and password")
    if "?" in url or "#" in url:
        raise ValueError(f'expected an address without a query or a fragment, found "{url}"; end it with the path')
    return url.rstrip("/")


def _check_secret(value: str) -> str:
    if not is_reference(value):  # not shown: it may be the secret itself
        raise ValueError(
            "expected where the secret stands, found something else; write ${NAME} for an environment variable, or "
            "file:PATH"
        )
    return value


_Url = Annotated[str, AfterValidator(_check_url)]
_Secret = Annotated[str, AfterValidator(_check_secret)]
TOPIC_NAME, RECORD_NAME, TOPIC_RECORD_NAME = "topic-name", "record-name", "topic-record-name"


class RecordNames(Section):
    """Full names of the records' schemas, for subjects that are named after them."""

    features: str | None = Field(default=None, description="Of the feature records.")
    labels: str | None = Field(default=None, description="Of the label records.")


class RegistrySpec(Section):
    """Where the schemas of the records are."""

    url: _Url = Field(
        description="Address of the registry, of Confluent's API: `https://registry:8081`. Of several, with commas "
        "between, each is asked where those before it do not answer."
    )
    username: str | None = Field(default=None, description="User (basic authentication).")
    password: _Secret | None = Field(default=None, description="Password: `${NAME}` or `file:PATH`.")
    token: _Secret | None = Field(default=None, description="Bearer token: `${NAME}` or `file:PATH`.")
    ca: str | None = Field(
        default=None, description="PEM file of the certificates to trust. Default: those of the system."
    )
    certificate: str | None = Field(default=None, description="PEM file of the client's certificate (mutual TLS).")
    key: str | None = Field(default=None, description="PEM file of its key. Default: the same file.")
    key_password: _Secret | None = Field(default=None, description="Password of the key: `${NAME}` or `file:PATH`.")
    subjects: Literal["topic-name", "record-name", "topic-record-name"] = Field(
        default="topic-name",
        description="How subjects are named: `topic-name` (`TOPIC-value`), `record-name` (the schema's full name) or "
        "`topic-record-name` (`TOPIC-` and the full name).",
    )
    records: RecordNames = Field(
        default_factory=RecordNames,
        description="Full names of the schemas, where subjects are named after them; of Protobuf, which message of a "
        "schema is meant, by default the first one. Predictions are `riparian.Prediction`.",
    )
    max_wait: duration("10s") = Field(  # type: ignore[valid-type]
        default="10s",
        description="How long a record waits for a schema that the registry does not know, before it is rejected. "
        "While the registry does not answer, it waits on.",
    )

    @property
    def addresses(self) -> list[str]:
        """What `url` holds."""
        return self.url.split(",")

    @model_validator(mode="after")
    def _check(self) -> "RegistrySpec":
        if (self.username is None) != (self.password is None):
            missing = "username" if self.username is None else "password"
            raise ValueError(f"expected username and password together, found no {missing}; add it or remove both")
        if self.token is not None and self.username is not None:
            raise ValueError("expected username and password or token, found both; remove one of them")
        for name in ("key", "key_password"):
            if getattr(self, name) is not None and self.certificate is None:
                raise ValueError(f"expected certificate beside {name}, found none; name its PEM file")
        for name in ("ca", "certificate"):
            if getattr(self, name) is not None and not self.url.startswith("https:"):
                raise ValueError(f'expected {name} only with https, found "{self.url}"; write https, or remove {name}')
        return self
