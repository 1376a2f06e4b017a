"""The streaming decision tree: a streaming decision forest of one tree."""

from riparian.models.streaming_forest.entries import STREAMING_DECISION_TREE
from riparian.models.streaming_forest.streaming_decision_forest import StreamingDecisionForest


class StreamingDecisionTree(StreamingDecisionForest):
    """Streaming decision tree (SDT): one tree of a StreamingDecisionForest, that tries all features in each node.

    Missing values, nominal features, weights, buffered labels and the bound on memory: as there. Class probabilities
    are the shares of a leaf.

    Of equally good features the first is taken, in an order drawn by the seed. Batches are greater by default than the
    forest's: the first one makes the upper splits, and the tree is never begun anew.

    Examples
    --------
    >>> learner = StreamingDecisionTree(Schema((0, 3), 2, "classification"), batch_size=50)
    >>> x = np.random.default_rng(1).integers(0, 3, (500, 2)).astype(float)
    >>> learner.learn_many(x, (x[:, 1] == 2).astype(float))
    >>> learner.predict_many([[0.0, 2.0]]).tolist()
    [[0.0, 1.0]]
    """

    entry = STREAMING_DECISION_TREE
