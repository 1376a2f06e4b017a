"""The text of a .proto file as a descriptor: what messages and enums it has, and nothing else.

Fields, maps, oneofs, groups, nested types, imports and the features of editions decide how bytes are read. Options,
services, extensions, reserved numbers and default values do not, and are passed over, so a file may use options that
nobody here can resolve. Names of types stay as they were written: protobuf's own pool resolves them, and checks the
rest. Whatever a text holds, it takes time in proportion to its length.
"""

import re
from typing import Any

from google.protobuf import descriptor_pb2 as d

from riparian.topics.schemas import UnusableError

MAX_LEVELS = 64  # levels of messages in messages

_TOKEN = re.compile(
    r"""(?P<gap>(?:\s+|//[^\n]*|/\*.*?\*/)+)|(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')"""
    r"""|(?P<number>\.?[0-9](?:[eE][+-]|[\w.])*)|(?P<name>[A-Za-z_]\w*)|(?P<mark>(?!/\*)[^\s\w"'])""",
    re.ASCII | re.DOTALL,
)
_WORD, _INTEGER = re.compile(r"[A-Za-z_]\w*", re.ASCII), re.compile(r"0[xX][0-9a-fA-F]+|[0-9]+", re.ASCII)
_OPEN, _CLOSE = "{[<", "}]>"
_F = d.FieldDescriptorProto
_SCALARS = {
    name: getattr(_F, f"TYPE_{name.upper()}")
    for name in (
        "double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "bytes", "uint32",
        "sfixed32", "sfixed64", "sint32", "sint64",
    )
}  # fmt: skip
_LABELS = {"optional": _F.LABEL_OPTIONAL, "required": _F.LABEL_REQUIRED, "repeated": _F.LABEL_REPEATED}


def file_of(name: str, text: str) -> Any:
    """The descriptor (FileDescriptorProto) of a file of this name. UnusableError where the text is none."""
    return _Parser(name, text).file()


class _Parser:
    def __init__(self, name: str, text: str) -> None:
        self._made = d.FileDescriptorProto(name=name, syntax="proto2")
        self._tokens: list[str] = []
        self._ends: list[int] = []  # of the tokens, in the text
        self._text = text
        at = 1 if text.startswith("\ufeff") else 0
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                raise UnusableError(f"line {1 + text.count(chr(10), 0, at)}: a character that .proto files do not have")
            at = found.end()
            if found.lastgroup != "gap":
                self._tokens.append(found[0])
                self._ends.append(at)
        self._at = 0

    # -- tokens ------------------------------------------------------------------------------------------------

    def _look(self) -> str:
        """The next token, "" at the end."""
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._look()
        self._at += 1
        return token

    def _wrong(self, expected: str) -> UnusableError:
        """About the token that was read last."""
        at = min(self._at, len(self._tokens))
        found = f'"{self._tokens[at - 1][:40]}"' if at == self._at and at else "its end"
        line = 1 + self._text.count("\n", 0, self._ends[at - 1] if at else 0)
        return UnusableError(f"line {line}: expected {expected}, found {found}")

    def _take(self, *marks: str) -> str:
        token = self._next()
        if token not in marks:
            raise self._wrong(" or ".join(f'"{mark}"' for mark in marks))
        return token

    def _name(self) -> str:
        token = self._next()
        if not _WORD.fullmatch(token):
            raise self._wrong("a name")
        return token

    def _dotted(self) -> str:
        """A name such as a.b.C, or .a.b.C."""
        name = ""
        if self._look() == ".":
            name = self._next()
        name += self._name()
        while self._look() == ".":
            name += self._next() + self._name()
        return name

    def _integer(self) -> int:
        sign = -1 if self._look() == "-" else 1
        if sign < 0:
            self._next()
        token = self._next()
        if not _INTEGER.fullmatch(token) or len(token) > 20:
            raise self._wrong("a whole number")
        try:
            return sign * int(token, 16 if token[:2] in ("0x", "0X") else 8 if token[0] == "0" else 10)
        except ValueError:
            raise self._wrong("a whole number") from None

    def _string(self) -> str:
        """One or more literals, without their quotes. Names of files need no escapes."""
        token = self._next()
        if token[:1] not in ('"', "'"):
            raise self._wrong("a text in quotes")
        made = token[1:-1]
        while self._look()[:1] in ('"', "'"):
            made += self._next()[1:-1]
        return made

    def _until(self, *ends: str) -> tuple[list[str], str]:
        """The tokens up to one of these marks that stands outside of all brackets, and the mark."""
        found, level = list[str](), 0
        while True:
            token = self._next()
            if not token:
                raise self._wrong(" or ".join(f'"{mark}"' for mark in ends))
            if level == 0 and token in ends:
                return found, token
            level += (token in _OPEN) - (token in _CLOSE)
            if level < 0:
                raise self._wrong(" or ".join(f'"{mark}"' for mark in ends))
            found.append(token)

    # -- what a file has ---------------------------------------------------------------------------------------

    def file(self) -> Any:
        made = self._made
        while word := self._next():
            if word in ("syntax", "edition"):
                self._take("=")
                self._version(word, self._string())
                self._take(";")
            elif word == "import":
                if self._look() in ("weak", "public", "option"):
                    self._next()
                made.dependency.append(self._string())
                self._take(";")
            elif word == "package":
                made.package = self._dotted()
                self._take(";")
            elif word in ("export", "local") and self._look() in ("message", "enum"):
                pass
            elif not self._type(word, made, 0):
                raise self._wrong("a message, an enum, or another part of a .proto file")
        return made

    def _version(self, word: str, version: str) -> None:
        if word == "syntax":
            if version not in ("proto2", "proto3"):
                raise self._wrong("proto2 or proto3")
            self._made.syntax = version
        else:
            try:
                self._made.syntax, self._made.edition = "editions", d.Edition.Value(f"EDITION_{int(version)}")
            except ValueError:
                raise self._wrong("an edition that is known") from None

    def _type(self, word: str, parent: Any, level: int) -> bool:
        """What may stand in a file and in a message; False where `word` begins something else."""
        if word == "message":
            made = parent.message_type.add() if level == 0 else parent.nested_type.add()
            made.name = self._name()
            self._message(made, level + 1)
        elif word == "enum":
            self._enum(parent.enum_type.add())
        elif word == "option":
            self._option(parent, ";")
        elif word in ("extend", "service"):
            self._until("{")
            self._until("}")
        elif word != ";":
            return False
        return True

    def _message(self, made: Any, level: int) -> None:
        if level > MAX_LEVELS:
            raise UnusableError(f"messages that are nested more than {MAX_LEVELS} levels")
        self._take("{")
        alone: list[Any] = []  # fields that are optional in proto3: each is a oneof of its own
        while (word := self._next()) != "}":
            if word == "oneof":
                self._oneof(made, level)
            elif word in ("reserved", "extensions"):
                self._until(";")
            elif word == "map" and self._look() == "<":
                self._map(made)
            elif word in ("export", "local") and self._look() in ("message", "enum"):
                pass
            elif not self._type(word, made, level):
                label = _LABELS.get(word)
                if label is None:
                    self._at -= 1
                field = self._field(made, level, label or _F.LABEL_OPTIONAL)
                if word == "optional" and self._made.syntax == "proto3":
                    alone.append(field)
        names = {field.name for field in made.field} | {oneof.name for oneof in made.oneof_decl}
        for field in alone:
            name = field.name if field.name.startswith("_") else f"_{field.name}"
            while name in names:
                name = f"X{name}"
            names.add(name)
            field.proto3_optional, field.oneof_index = True, len(made.oneof_decl)
            made.oneof_decl.add(name=name)

    def _field(self, message: Any, level: int, label: int) -> Any:
        kind = self._dotted()
        if kind == "group" and self._look() != "=":
            return self._group(message, level, label)
        field = message.field.add(label=label)
        if kind in _SCALARS:
            field.type = _SCALARS[kind]
        else:
            field.type_name = kind
        field.name = self._name()
        self._number(field)
        self._take(";")
        return field

    def _number(self, field: Any) -> None:
        self._take("=")
        number = self._integer()
        if not 0 < number < 2**29:
            raise self._wrong("the number of a field")
        field.number = number
        if self._look() == "[":
            self._next()
            while self._option(field, ",", "]") == ",":
                pass

    def _group(self, message: Any, level: int, label: int) -> Any:
        name = self._name()
        field = message.field.add(name=name.lower(), label=label, type=_F.TYPE_GROUP, type_name=name)
        self._number(field)
        self._message(message.nested_type.add(name=name), level + 1)
        return field

    def _oneof(self, message: Any, level: int) -> None:
        place = len(message.oneof_decl)
        message.oneof_decl.add(name=self._name())
        self._take("{")
        while (word := self._next()) != "}":
            if word == "option":
                self._option(message.oneof_decl[place], ";")
            elif word != ";":
                self._at -= 1
                self._field(message, level, _F.LABEL_OPTIONAL).oneof_index = place

    def _map(self, message: Any) -> None:
        self._take("<")
        key = self._name()
        self._take(",")
        kind = self._dotted()
        self._take(">")
        name = self._name()
        if key not in _SCALARS or key in ("double", "float", "bytes"):
            raise UnusableError(f"the map {name[:40]} has keys of the type {key[:40]}")
        made = message.nested_type.add(name="".join(part[:1].upper() + part[1:] for part in name.split("_")) + "Entry")
        made.options.map_entry = True
        made.field.add(name="key", number=1, label=_F.LABEL_OPTIONAL, type=_SCALARS[key])
        value = made.field.add(name="value", number=2, label=_F.LABEL_OPTIONAL)
        if kind in _SCALARS:
            value.type = _SCALARS[kind]
        else:
            value.type_name = kind
        field = message.field.add(name=name, label=_F.LABEL_REPEATED, type=_F.TYPE_MESSAGE, type_name=made.name)
        self._number(field)
        self._take(";")

    def _enum(self, made: Any) -> None:
        made.name = self._name()
        self._take("{")
        while (word := self._next()) != "}":
            if word == "option":
                self._option(made, ";")
            elif word == "reserved":
                self._until(";")
            elif word != ";":
                self._at -= 1
                value = made.value.add(name=self._name())
                self._take("=")
                number = self._integer()
                if not -(2**31) <= number < 2**31:
                    raise self._wrong("the number of an enum")
                value.number = number
                if self._take("[", ";") == "[":
                    self._until("]")
                    self._take(";")

    def _option(self, owner: Any, *ends: str) -> str:
        """An option; how it ended. Only the features of editions are kept."""
        (name, _), (value, end) = self._until("="), self._until(*ends)
        if name[:2] == ["features", "."] and len(name) == 3 and len(value) == 1:
            field = d.FeatureSet.DESCRIPTOR.fields_by_name.get(name[2])
            known = None if field is None or field.enum_type is None else field.enum_type.values_by_name.get(value[0])
            if known is not None:
                setattr(owner.options.features, name[2], known.number)
        return end
