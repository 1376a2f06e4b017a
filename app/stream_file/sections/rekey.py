"""The stream file's `rekey` section: topics that are copied by the ids of their records."""

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from riparian.app.stream_file.sections.base import Section, as_list, check_once
from riparian.app.stream_file.sections.record import Topic


def _check_topics(value: list[str]) -> list[str]:
    if not value:
        raise ValueError("expected at least one topic, found an empty list; name one, or remove the line")
    check_once(value, "topic")
    return value


_Topics = Annotated[list[Topic], BeforeValidator(as_list), AfterValidator(_check_topics)]


class RekeySpec(Section):
    """Topics whose records are copied, each to the partition of its id or key, into `topics.features` and
    `topics.labels`. They may have any partitions, keys and partitioners. What is left out here is read as it is."""

    features: _Topics | None = Field(
        default=None,
        description="Topic of the features as they come, or a list of topics, copied to `topics.features`.",
    )
    labels: _Topics | None = Field(
        default=None, description="Topic of the labels as they come, or a list of topics, copied to `topics.labels`."
    )

    by: str | None = Field(
        default=None,
        description="A key of `keys`: features go to the partition of this key, so that features over its past are "
        "exact with any `partitions`, and labels to every partition.",
    )

    @model_validator(mode="after")
    def _check(self) -> "RekeySpec":
        if self.features is None and self.labels is None:
            raise ValueError("expected topics of features or of labels, found neither; name some, or remove the line")
        return self
