"""What learns: all partitions one model, or each models of its own."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, model_validator

from riparian.app.stream_file.sections.base import ShortForm
from riparian.topics.records import ANOMALY, CLASSIFICATION, MULTI_INSTANCE, REGRESSION

PARTITION, SHARED = "partition", "shared"
TASKS = (CLASSIFICATION, REGRESSION, ANOMALY, MULTI_INSTANCE)
SINGLE = (CLASSIFICATION, REGRESSION)  # tasks of instances that are each on their own, which partitions can share


class LearningSpec(ShortForm):
    """What learns. `learning: shared` for the kind alone, `learning: {max_behind: 1000}` for shared learning with a
    bound."""

    brief = ("kind", (str,))

    kind: Literal["partition", "shared"] = Field(
        default="shared",
        description="`shared`: all partitions learn one model. `partition`: each has models of its own.",
    )
    max_behind: int | None = Field(
        default=None,
        ge=10,
        le=1_000_000,
        description="How many of the instances that the partitions of a worker have joined with their labels the "
        "shared model may lack when one of them predicts; predictions wait where it could lack more, but not for "
        "labels of `join.unlabelled` that mature in the same step. Default: few in a backlog, and 256 live.",
    )

    @model_validator(mode="after")
    def _check(self) -> "LearningSpec":
        needless = {SHARED: None, PARTITION: self.max_behind}[self.kind]
        if needless is not None:
            raise ValueError(
                f"expected max_behind only with kind {SHARED}, since models of its own learn what a partition joins at "
                f"once, found kind {self.kind}; remove max_behind"
            )
        return self


def usual_learning(data: Mapping[str, Any]) -> str:
    """What learns where a stream file, as it was read, does not say. By the file alone: every worker and command then
    finds the same, also where there is no broker, and topics with another number of partitions are refused anyway."""
    n = data.get("partitions")
    several = isinstance(n, int) and n > 1
    return SHARED if several and data.get("task") in SINGLE else PARTITION


def learning_of(data: Mapping[str, Any]) -> Any:
    """The kind that a stream file, as it was read, asks for; anything, where it is wrong."""
    value = data.get("learning", usual_learning(data))
    if isinstance(value, LearningSpec):
        return value.kind
    return value.get("kind", SHARED) if isinstance(value, Mapping) else value


def check_learning(spec: Any) -> None:
    """What one model of all partitions cannot be, or not yet."""
    kind, bound = spec.learning.kind, spec.learning.max_behind
    wanted, tasks = {SHARED: ("a topic", SINGLE), PARTITION: ("no topic", TASKS)}[kind]
    if wanted != ("a topic" if spec.of_all else "no topic"):
        raise ValueError(
            f"topics.learned: expected {wanted}, since learning is {kind}, found {', '.join(spec.of_all) or 'none'}; "
            "change one of them"
        )
    if spec.task not in tasks:
        raise ValueError(
            f"learning: expected {PARTITION} with task {spec.task}, found {SHARED}, which is for classification and "
            "regression; change it"
        )
    if bound is not None and spec.partitions == 1:
        raise ValueError(
            f"learning.max_behind: expected only with two partitions or more, found {bound:,} with partitions: 1; "
            "remove learning, or raise partitions"
        )
