"""Decodes what several partitions have released in one call. Pure.

Live, a partition has a record or two at a time, and a call costs more than these. A record decodes to the same in
whichever batch it stands, as long as all is usual: nothing is rejected, and no value and no class is new. What is not
usual each partition decodes for itself, as it does where it reads in a way of its own.
"""

from itertools import accumulate, pairwise

from riparian.app.partition.joint_work import FEW, JointItem
from riparian.app.partition.records.decoder import Likeness, PartitionDecoder
from riparian.app.partition.records.partition_group import Release, concatenate
from riparian.topics.names import FEATURES, LABELS
from riparian.topics.records import Features, Labels, RawBatch


class Undecoded(JointItem):
    """What one partition has to decode, with others that have to.

    Attributes
    ----------
    found : tuple of Features and Labels, optional
        None where it has to do so itself.
    """

    def __init__(self, decoder: PartitionDecoder, features: RawBatch, labels: RawBatch, like: Likeness) -> None:
        super().__init__(like, len(features) + len(labels))
        self.decoder, self.features, self.labels = decoder, features, labels
        self.found: tuple[Features, Labels] | None = None

    @classmethod
    def of(cls, decoder: PartitionDecoder, release: Release) -> "Undecoded | None":
        """A release; None where it is no usual one."""
        if release.n > FEW or LABELS not in release.pieces:  # labels that stand inside the features
            return None
        features, labels = release.pieces[FEATURES].raw, release.pieces[LABELS].raw
        if not all(type(one.values) is list and not one.headers for one in (features, labels)):
            return None
        like = decoder.likeness()
        return None if like is None else cls(decoder, features, labels, like)

    @staticmethod
    def together(group: "list[Undecoded]") -> None:
        """For all of them, by what the first knows, if it learns nothing on the way."""
        decoder = group[0].decoder
        known = decoder.known()
        try:
            features = decoder.features(concatenate([one.features for one in group]))
            labels = decoder.labels(concatenate([one.labels for one in group]))
            usual = decoder.likeness() == group[0].like
        except Exception:  # the one whose records these are comes to it again
            usual = False
        if not usual:
            decoder.restore(known[:-1], known[-1])
            return
        if features.position is not None or labels.position is not None or features.y is not None:
            return
        ids, label_ids = list(features.ids), list(labels.ids)
        edges = pairwise(accumulate((len(one.features) for one in group), initial=0))
        label_edges = pairwise(accumulate((len(one.labels) for one in group), initial=0))
        for one, (i, j), (k, m) in zip(group, edges, label_edges, strict=True):
            times = None if features.times is None else features.times[i:j]
            label_times = None if labels.times is None else labels.times[k:m]
            one.found = (
                Features(None, ids[i:j], features.x[i:j], None, times, []),
                Labels(None, label_ids[k:m], labels.y[k:m], label_times, []),
            )
