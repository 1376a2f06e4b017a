"""The stream file's `join` section: how features wait for their labels."""

from pydantic import Field

from riparian.app.stream_file.durations import duration
from riparian.app.stream_file.sections.base import Section


class JoinSpec(Section):
    """How features wait for their labels."""

    horizon: duration("7d", 0.001) = Field(  # type: ignore[valid-type]
        default="7d",
        description="How long an instance waits for its label, and a label for its instance, by record timestamps.",
    )
    max_pending: int = Field(
        default=1_000_000,
        ge=1,
        le=10**12,
        description="Most instances that wait, per partition; beyond, the oldest is dropped.",
    )
    max_pending_bytes: int = Field(
        default=1_000_000_000,
        ge=1_000_000,
        le=10**15,
        description="Most bytes that waiting instances take, per partition; beyond, the oldest is dropped. An instance "
        "counts as 128 bytes, its id, 8 per feature, and 8 for each output of each model; the arrays may be twice as "
        "large. A bag: 16 more, and 8 per feature of each of its instances.",
    )
    max_labels: int = Field(
        default=100_000,
        ge=1,
        le=10**12,
        description="Most labels that wait, per partition; beyond, the oldest is dropped.",
    )
    max_buffered_bytes: int = Field(
        default=268_435_456,
        ge=1_000_000,
        le=10**15,
        description="Most bytes of records that a worker has fetched and not learned yet, of all its partitions "
        "together; for a moment it can be one poll more.",
    )
    max_wait: duration("2s") = Field(  # type: ignore[valid-type]
        default="2s",
        description="How long one topic may keep the other waiting, in real time, before records are taken out of the "
        "order of their timestamps.",
    )
