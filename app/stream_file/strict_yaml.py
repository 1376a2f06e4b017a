"""YAML without its traps.

PyYAML reads YAML 1.1, in which `no` is false, `12:30` is 750, `010` is 8, `1e-7` is a text, a date is an object, and of
two equal keys the last one wins in silence. Here, as in YAML 1.2, only `true` and `false` are booleans, numbers are
decimal, everything else is text, and a key that comes twice is an error. `1_000_000` is still a number; `007` is text,
because it is somebody's post code. Merge keys (`<<`) are not allowed, and values that aliases repeat are counted,
because both can turn a kilobyte into gigabytes.
"""

import difflib
import re
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from riparian.app.errors import SpecError

MOST_VALUES = 200_000  # values in a stream file, at most; those that aliases repeat count each time

_TAG = "tag:yaml.org,2002:"


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """A safe loader with resolvers and constructors of its own."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012  (PyYAML's own attribute)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "a key must be a plain name", key.start_mark)
            if key.tag == _TAG + "merge":
                raise yaml.constructor.ConstructorError(None, None, "there are no merge keys here", key.start_mark)
            if key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f'"{key.value}" is there twice', key.start_mark)
            seen.add(key.value)
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        return mapping


def _int(loader: _Loader, node: yaml.ScalarNode) -> int:
    return int(loader.construct_scalar(node).replace("_", ""))


def _float(loader: _Loader, node: yaml.ScalarNode) -> float:
    return float(loader.construct_scalar(node).replace("_", ""))


for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("int", r"[-+]?(?:0|[1-9][0-9_]*)", "-+0123456789"),
    (
        "float",
        r"[-+]?(?:(?:0|[1-9][0-9_]*)\.[0-9_]*(?:[eE][-+]?[0-9]+)?|\.[0-9]+(?:[eE][-+]?[0-9]+)?"
        r"|(?:0|[1-9][0-9_]*)[eE][-+]?[0-9]+)",
        "-+.0123456789",
    ),
    ("merge", r"<<", "<"),
):
    _Loader.add_implicit_resolver(_TAG + _tag, re.compile(rf"(?:{_pattern})\Z"), list(_first))
_Loader.add_constructor(_TAG + "int", _int)
_Loader.add_constructor(_TAG + "float", _float)


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file.

    Raises
    ------
    SpecError
        The file is absent, cannot be read, is not YAML (with the line), or holds no mapping.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        near = difflib.get_close_matches(path.name, (one.name for one in path.parent.glob("*.y*ml")), n=1)
        cure = f"did you mean {path.with_name(near[0])}?" if near else "check the path"
        raise SpecError(f"{path}: expected a stream file, found no such file; {cure}") from None
    except UnicodeDecodeError:
        raise SpecError(f"{path}: expected a YAML file, found bytes that are not UTF-8; save it as UTF-8") from None
    except OSError as error:
        raise SpecError(f"{path}: expected a stream file, found {error.strerror}; check the path") from None
    return parse_yaml(text, str(path))


def parse_yaml(text: str, where: str) -> dict[str, Any]:
    """The mapping in a YAML text; `where` names it in errors. Raises SpecError as `read_yaml` does."""
    try:
        found = yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        problem = error.problem or error.context or "it cannot be read"
        raise SpecError(f"{where}: {line}expected YAML, found a mistake: {problem}; correct that line") from None
    except yaml.YAMLError as error:
        reason = str(error).splitlines()[0]
        raise SpecError(f"{where}: expected YAML, found a mistake: {reason}; correct it") from None
    except (ValueError, RecursionError, KeyError, AttributeError, TypeError) as error:  # `!!bool abc` is a KeyError
        raise SpecError(
            f"{where}: expected YAML, found what cannot be read ({type(error).__name__}); correct it"
        ) from None
    if found is None:
        raise SpecError(
            f"{where}: expected a stream, found an empty file; begin with name, task, features and champion"
        )
    if not isinstance(found, dict):
        raise SpecError(
            f"{where}: expected fields such as name: and task:, found a {_kind(found)}; write one field per line"
        )
    if _size(found, {}) > MOST_VALUES:
        raise SpecError(f"{where}: expected at most {MOST_VALUES:,} values, found more; write fewer, or fewer aliases")
    return found


def _size(value: Any, known: dict[int, int]) -> int:
    """Values in a mapping or list, however often an alias repeats them. known : sizes of those seen, by identity."""
    if not isinstance(value, dict | list):
        return 1
    if id(value) not in known:
        known[id(value)] = 1  # an alias inside of what it stands for
        parts = value.values() if isinstance(value, dict) else value
        known[id(value)] = 1 + sum(_size(part, known) for part in parts)
    return known[id(value)]


def _kind(value: Any) -> str:
    return "list" if isinstance(value, list) else "single value"
