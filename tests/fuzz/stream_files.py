"""Stream files: `riparian check` either shows the stream, or says in one sentence what to mend, quickly and in little
memory."""

import re
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner

from riparian.app.cli.setup.check import command
from riparian.app.errors import SpecError
from riparian.models.registry import FOREIGN, REGISTRY, validate
from tests.fuzz import mutate
from tests.fuzz.mutate import Random, pick
from tests.fuzz.records import STREAMS
from tests.fuzz.target import Target

ROOT = Path(__file__).resolve().parents[2]
SENTENCE = re.compile(r"s\.yaml: (expected .+|.+: .+)")  # which names a field, or a line, but where there are none
LONGEST = 1500  # characters of a sentence

# Of the top, of the parts, and what detectors and models are called: for keys and values in wrong places.
WORDS = (
    *("name", "task", "topics", "features", "record", "label", "classes", "champion", "challengers", "join", "drift"),
    *(
        "checkpoint",
        "metrics",
        "predictions",
        "trust",
        "codec",
        "seed",
        "lost",
        "retention",
        "partitions",
        "max_classes",
    ),
    *(
        "id",
        "x",
        "y",
        "time",
        "type",
        "values",
        "max_values",
        "from",
        "model",
        "on_drift",
        "detectors",
        "window",
        "every",
    ),
    *("adwin", "ddm", "kswin", "page-hinkley", "none", "all", "auto", "code", "pickles", "@key", "a.b", "<<", "NaN"),
    *(
        "0.1",
        "5s",
        "1e3d",
        "9" * 400,
        "1e308",
        ".inf",
        "-1",
        "2147483648",
        "1_0",
        "é",
        "\u2028",
        "\x85",
        "[bold]",
        "{x}",
    ),
)


@cache
def corpus() -> tuple[Any, ...]:
    """Valid streams: the examples, one of each form of records, and each learner with all its parameters."""
    folders = (ROOT / "examples", ROOT / "deploy" / "streams", ROOT / "app" / "demo" / "data")
    texts = [file.read_text(encoding="utf-8") for folder in folders for file in sorted(folder.glob("*.yaml"))]
    found = [yaml.safe_load(text) for text in texts]
    found += [{"name": "fuzz", "champion": "last-label", **form} for form in STREAMS.values()]
    everything = {
        "partitions": 2,
        "retention": "30d",
        "join": {"horizon": "7d", "max_pending": 1000, "max_pending_bytes": 10**6, "max_labels": 9, "max_wait": "2s"},
        "checkpoint": {"every": "5s", "share": 0.1, "keep": 5, "keep_every": "10m"},
        "drift": {"detectors": {"adwin": {"delta": 0.01}, "ddm": {}}, "features": ["a"], "on_drift": "replace"},
        "metrics": {"every": "5s", "window": 1000, "fading": 0.999},
        "predictions": {"challengers": True, "probabilities": False},
        "seed": 7,
    }
    for name, entry in REGISTRY.items():
        for task in entry.tasks if name not in FOREIGN else ():
            model = {"model": name, **validate(name, task, {})}
            classes = {"classes": ["no", "yes"]} if task == "multi-instance" else {}
            found.append(
                {"name": "fuzz", "task": task, "features": {"a": "numeric"}, "champion": model, **classes, **everything}
            )
    return tuple(found)


def _bomb(rng: Random) -> str:
    """Aliases that repeat each other, or nesting."""
    n = int(rng.integers(2, 60))
    kind = int(rng.integers(5))
    if kind == 0:
        lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
        lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, n)]
        return "\n".join(lines)
    if kind == 1:
        merged = "\n".join(f"a{i}: &a{i} {{<<: [*a{i - 1}, *a{i - 1}], b{i}: 1}}" for i in range(1, n))
        return f"a0: &a0 {{b: 1}}\n{merged}"
    if kind == 2:
        return pick(rng, ("name: ", "features: ", "")) + pick(rng, ("[", "{a: ", "- ", "? ")) * (n * n)
    if kind == 3:
        return f"name: a\nfeatures: &f\n  a: *f\n  b: {'9' * n * n}\n"
    return f"name: a\ntask: regression\nfeatures: {{{', '.join(f'f{i}: numeric' for i in range(n * n))}}}\n"


class StreamFiles(Target):
    """A case is the text of a file."""

    # `riparian check` of 200,000 values in 5 MB takes a second; these are smaller.
    seconds, megabytes, budget = 2.0, 64, 250

    def prepare(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.file = Path(self.folder.name) / "s.yaml"
        for form in corpus():
            self.run(yaml.safe_dump(form).encode())

    def make(self, rng: Random) -> bytes:
        if rng.random() < 0.03:
            return _bomb(rng).encode()
        value = pick(rng, corpus())
        for _ in range(int(rng.integers(0, 4))):
            other = pick(rng, corpus())
            parts = [*other.values(), *(v for part in other.values() if isinstance(part, dict) for v in part.values())]
            value = mutate.of_value(rng, value, (*mutate.SCALARS, *WORDS, *parts))
        flow = pick(rng, (None, None, True, False))
        data: bytes = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, default_flow_style=flow).encode(
            "utf-8", "surrogatepass"
        )
        if rng.random() < 0.4:
            for _ in range(int(rng.integers(1, 4))):
                data = mutate.of_bytes(rng, data, (*mutate.TOKENS, *(word.encode() for word in WORDS)))
        return data

    def run(self, case: bytes) -> None:
        self.file.write_bytes(case)
        how = ["--json"] if len(case) % 2 else []
        result = CliRunner().invoke(command, [str(self.file), *how], standalone_mode=False)
        error = result.exception
        for line in result.output.splitlines():
            assert line.isprintable(), f"not printable: {line!r}"
        if error is None:
            return
        if not isinstance(error, SpecError):
            raise error
        said = str(error).replace(str(self.file), "s.yaml")
        assert SENTENCE.fullmatch(said), f"no sentence: {said[:2000]!r}"
        assert len(said) <= LONGEST, f"{len(said)} characters: {said[:200]!r}"
        assert said.isprintable(), f"not printable: {said!r}"

    def shrink(self, case: bytes) -> Iterator[bytes]:
        lines = case.splitlines(keepends=True)
        for fewer in mutate.smaller(lines):
            yield b"".join(fewer)
        yield from mutate.shorter(case)

    def close(self) -> None:
        self.folder.cleanup()


TARGETS = {"stream_files": StreamFiles()}
