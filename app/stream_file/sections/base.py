"""Names, lists and classes that every section of a stream file is made of."""

import re
from collections.abc import Sequence
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler, model_serializer, model_validator

from riparian.topics.names import MAX_TOPIC_LENGTH, OUTPUTS, REKEY_END, changelog_topic, topic_name

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
ROLE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


def check_name(name: str) -> str:
    if NAME.fullmatch(name) is None:
        raise ValueError(f'expected a name of letters, digits, ".", "_" and "-", found "{name}"; rename the stream')
    longest = MAX_TOPIC_LENGTH - max(len(changelog_topic("")), *(len(topic_name("", role)) for role in OUTPUTS))
    if len(name) > longest:
        raise ValueError(f"expected a name of at most {longest} characters, found {len(name)}; shorten it")
    if name.endswith(REKEY_END):
        raise ValueError(
            f'expected a name that does not end in "{REKEY_END}", by which workers call the consumer group that copies '
            f'topics for the stream {name.removesuffix(REKEY_END) or "before it"}, found "{name}"; rename the stream'
        )
    return name


def as_list(value: Any) -> Any:
    """One text as a list of one."""
    return [value] if isinstance(value, str) else value


def check_once(names: Sequence[str], what: str) -> None:
    """ValueError where one comes twice. what : they are."""
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f'expected every {what} once, found "{name}" twice; remove one')


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, validate_default=True)


class ShortForm(Section):
    """A part for which the value of one field may stand, where the others are as by default.

    brief : that field's name, and the types of its values.
    """

    brief: ClassVar[tuple[str, tuple[type, ...]]]

    @model_validator(mode="before")
    @classmethod
    def _of_brief(cls, value: Any) -> Any:
        name, kinds = cls.brief
        return {name: value} if isinstance(value, kinds) and not isinstance(value, bool) else value

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        schema = handler(core_schema)
        found = handler.resolve_ref_schema(schema)
        whole = found.copy()
        field = {**whole["properties"][cls.brief[0]]}
        del field["description"], field["title"]
        field.pop("default", None)
        found.clear()
        found.update(description=whole.pop("description"), anyOf=[field, whole])
        return schema


class Terse(ShortForm):
    """One that is also written so."""

    @model_serializer
    def plain(self) -> Any:
        """What was said, as plain values."""
        name, fields = self.brief[0], type(self).model_fields
        found = {key: getattr(self, key) for key in fields}
        alone = all(value == fields[key].default for key, value in found.items() if key != name)
        return found[name] if alone else found
