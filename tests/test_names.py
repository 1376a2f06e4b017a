"""Names: what is searched for stands in one place."""

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Words that two things have in their fields: a program of a learner and of a decoder, the schema of a learner and of a
# registry, the source of a stream and of pending rows, drift that a generator makes and that a partition finds.
SHARED = {"Drift", "Program", "Schema", "Source"}
# Classes of app and topics alone.
TWICE = {
    "Answer", "Batch", "Block", "BlockReader", "Brief", "Cells", "Compared", "Decision", "Feature", "FeatureReader",
    "Figures", "Found", "Head", "Host", "Leaf", "Letter", "Measure", "Messages", "Part", "Past", "Plan",
    "PredictionReader", "PredictionWriter", "Problem", "Range", "Reader", "Record", "RefusedError", "Repeated",
    "Report", "Rows", "Sampled", "Seen", "Series", "Table", "Waiting", "Wanted", "Way", "Writer", "_Column", "_Node",
    "_Part", "_Reader", "_Records",
}  # fmt: skip


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
    assert set(twice) <= SHARED | TWICE, {name: twice[name] for name in set(twice) - SHARED - TWICE}
    for name, places in twice.items():
        of_models = [place for place in places if place.startswith("models/")]
        assert len(of_models) <= (name in SHARED), (name, places)
