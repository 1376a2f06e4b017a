"""Partitions that learn one model, in memory, and what is true of what they send."""

import json
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from topics.learned import LearnedRecord, read


def lacked(
    partition: int,
    features: Sequence[bytes],
    labels: Sequence[bytes],
    sent: Sequence[dict[str, Any]],
    log: Mapping[int, bytes],
) -> list[int]:
    """For each prediction of a partition, how many instances it had joined that the model lacked, by the definition.

    features, labels : values of the topics, from offset 0 on; an id comes once, and its label in another record.
    log : offset -> value
    """
    features_at, labels_at = ({json.loads(value)["id"]: i for i, value in enumerate(t)} for t in (features, labels))
    joined = np.array([(at, labels_at[id_]) for id_, at in features_at.items() if id_ in labels_at])
    own = {at: one for at, one in ((at, read(value)) for at, value in log.items()) if isinstance(one, LearnedRecord)}
    own = {at: one for at, one in own.items() if one.partition == partition}
    offsets, learned = list(own), [0, *np.maximum.accumulate([one.first + one.n for one in own.values()]).tolist()]
    found = []
    for one in sent:
        before = (joined[:, 0] < one["offset"]) & (joined[:, 1] < one["label_offset"])
        found.append(int(np.count_nonzero(before)) - learned[bisect_left(offsets, one["learned_offset"])])
    return found
