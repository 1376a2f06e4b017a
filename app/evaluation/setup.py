"""What one call of `riparian evaluate` asks for."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from riparian.app.dataset.dated import DatedFile
from riparian.app.dataset.files.arrow import open_data
from riparian.app.dataset.files.data import DataFile
from riparian.app.dataset.files.synthetic import Recipe, SyntheticFile
from riparian.app.errors import SpecError
from riparian.app.stream_file.spec import Spec


class Setup(NamedTuple):
    """The rows, what the options say about them, and how they are gone through.

    data : a file, or None where a `recipe` generates them
    stream : says what the columns are; else they are inferred, by target, task, nominal, ignore and max_values as
        `DataFile.types` takes them
    date_parts : columns of times, of which features are made
    clock : the column with the time of each row, which is no feature (unless a stream file says so)
    label_clock : the column with the time at which the label of each row comes
    bag : the column that says which bag a row is of
    label_delay, points, detectors : as `app.evaluation.evaluate.evaluate_all` takes them
    seed : of the first repeat
    folds : of a cross-validation, instead of test-then-train
    jobs : processes
    """

    data: Path | None = None
    recipe: Recipe | None = None
    stream: Spec | None = None
    target: str | None = None
    task: str | None = None
    nominal: Sequence[str] = ()
    ignore: Sequence[str] = ()
    max_values: int | None = None
    date_parts: Sequence[str] = ()
    clock: str | None = None
    label_clock: str | None = None
    limit: int | None = None
    bag: str | None = None
    label_delay: float = 0
    repeats: int = 1
    shuffle: bool = False
    seed: int | None = None
    window: int | None = None
    fading: float | None = None
    coverage: float | None = None
    calibrated: bool = False
    points: int | None = None
    detectors: Sequence[str] = ()
    folds: int | None = None
    jobs: int | None = None

    def open(self, seed: int | None = None) -> DataFile:
        """The rows. seed : of those that are generated, where it is not the recipe's."""
        if self.recipe is None:
            file = open_data(self.data or "")
        else:
            file = SyntheticFile(self.recipe if seed is None else self.recipe._replace(seed=seed))
        file = DatedFile(file, self.date_parts)
        if self.stream is not None:
            file.find(self.stream.mapping().features)
        return file

    def check_unlabelled(self) -> None:
        """SpecError where something is asked for that only labels can tell."""
        asked: dict[str, Any] = {"--label-delay": self.label_delay, "--label-time": self.label_clock}
        asked |= {"--detector": self.detectors, "--window": self.window, "--fading": self.fading}
        for option in [option for option, value in asked.items() if value]:
            raise SpecError(
                f"{option} is about labels, and there are none: name their column by --label, or leave it out"
            )
