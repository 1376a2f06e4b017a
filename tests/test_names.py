"""Names: what is searched for stands in one place."""

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Names that stand in two files, each with its reason.
TWICE = {
    "Batch",  # records of a topic that are joined, and those that are copied: neither leaves its folder
    "Host",  # what a task asks of its worker, and Faust's worker with several apps
}


def class_names():
    """The files of app, models and topics that define each class, by its name."""
    found = defaultdict(list)
    for package in ("app", "models", "topics"):
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef):
                    found[node.name].append(str(path.relative_to(ROOT)))
    return found


def test_a_class_name_stands_once():
    twice = {name: places for name, places in class_names().items() if len(places) > 1}
    assert set(twice) == TWICE, {name: twice.get(name) for name in set(twice) ^ TWICE}
