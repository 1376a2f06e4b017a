"""The stream file's `kafka` section: settings of the connection under librdkafka's names, and no secret."""

import difflib
import re
from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from riparian.app.references import is_reference
from riparian.app.stream_file.sections.base import Section
from riparian.topics.names import client_id, group_id

# All settings of a connection, wherever they stand; docs/run/connect.md says what each means.
NAMES = (
    "bootstrap.servers",
    "security.protocol",
    "sasl.mechanism",
    "sasl.username",
    "sasl.password",
    "sasl.oauthbearer.method",
    "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.token.endpoint.url",
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.extensions",
    "sasl.oauthbearer.token.provider",
    "https.ca.location",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
    "ssl.endpoint.identification.algorithm",
    "client.id",
    "client.rack",
    "group.instance.id",
)
SYNONYMS = {"sasl.mechanisms": "sasl.mechanism"}  # librdkafka has both
SECRETS = ("sasl.password", "sasl.oauthbearer.client.secret", "ssl.key.password")
PROVIDER = "sasl.oauthbearer.token.provider"
INSTANCE = "group.instance.id"
OURS = group_id("")
PREFIX = re.compile(r"[A-Za-z0-9._-]{1,100}")


def nearest(name: str, names: tuple[str, ...] = NAMES) -> str:
    """The cure for a name that is none."""
    close = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {close[0]}?" if close else f"the settings are {', '.join(names)}."


def _check_prefix(prefix: str) -> str:
    if prefix and PREFIX.fullmatch(prefix) is None:
        raise ValueError(
            f'expected at most 100 letters, digits, ".", "_" and "-", found "{prefix[:200]}"; write it as team-a.'
        )
    if OURS in prefix:  # else a prefix and a stream's name could end in the group of another stream
        raise ValueError(f'expected a prefix without "{OURS}", found "{prefix}"; write it as team-a.')
    return prefix


class KafkaSpec(Section):
    """Settings of the connection under librdkafka's names. They are weaker than those of the command line and of the
    environment."""

    model_config = ConfigDict(extra="allow")

    prefix: Annotated[str, AfterValidator(_check_prefix)] = Field(
        default="",
        description="What the consumer group and the client ids begin with.",
        json_schema_extra={"pattern": f"^({PREFIX.pattern})?$"},
    )

    @model_validator(mode="before")
    @classmethod
    def _check_settings(cls, data: Any) -> Any:
        """No value is quoted: it may be a secret in the wrong place."""
        if not isinstance(data, dict):
            return data
        for name, value in data.items():
            if name in cls.model_fields:
                continue
            if not isinstance(name, str) or SYNONYMS.get(name, name) not in NAMES:
                raise ValueError(f'expected settings of the connection, found "{name}": {nearest(str(name))}')
            if not isinstance(value, str):
                raise ValueError(f"{name}: expected a text, found another value; put it in quotes")
            if name in SECRETS and not is_reference(value):
                raise ValueError(
                    f"{name}: expected ${{NAME}} of an environment variable or file:PATH, found the secret itself; a "
                    "stream file is read by many: keep it in a variable, or in a file of its own"
                )
            if name == INSTANCE and not is_reference(value):
                raise ValueError(
                    f"{name}: expected ${{NAME}} of an environment variable or file:PATH, found one name for all "
                    "workers of the stream; each needs its own"
                )
        return data

    @property
    def settings(self) -> dict[str, str]:
        """The settings by name, as written; and what the prefix makes of `client.id`, unless that is given."""
        named = {"client.id": client_id(self.prefix)} if self.prefix else {}
        return named | dict(self.model_extra or {})
