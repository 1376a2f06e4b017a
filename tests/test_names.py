"""Names: what is searched for stands in one place, and is a thing or a deed of the field."""

import ast
import re
from collections import defaultdict
from pathlib import Path

from tests.trees import nodes

ROOT = Path(__file__).resolve().parents[1]


def class_names():
    """The files of app, models and topics that define each class, by its name."""
    found = defaultdict(list)
    for package in ("app", "models", "topics"):
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in nodes(path):
                if isinstance(node, ast.ClassDef):
                    found[node.name].append(str(path.relative_to(ROOT)))
    return found


def test_a_class_name_stands_once():
    twice = {name: places for name, places in class_names().items() if len(places) > 1}
    assert not twice


SPEECH = {"told", "tell", "tells", "telling", "said", "say", "says", "saying", "heard", "hear", "spoke", "speaks"}


def test_no_module_function_or_class_is_named_by_a_verb_of_speech():
    found = []
    for package in ("app", "models", "topics", "deploy"):
        for path in sorted((ROOT / package).rglob("*.py")):
            kinds = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
            names = [node.name for node in nodes(path) if isinstance(node, kinds)]
            words = {
                name: set(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().split("_")) for name in (path.stem, *names)
            }
            found += [f"{path.relative_to(ROOT)}: {name}" for name in words if words[name] & SPEECH]
    assert not found


def test_a_docstring_begins_with_what_the_thing_does():
    found = []
    for package in ("app", "models", "topics"):
        for path in sorted((ROOT / package).rglob("*.py")):
            place = str(path.relative_to(ROOT))
            for node in nodes(path):
                if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                    text = ast.get_docstring(node) or ""
                    if text.startswith(("As of ", "As in ", "The same")):
                        found.append(f"{place}: {getattr(node, 'name', '')}: {text[:60]}")
    assert not found
