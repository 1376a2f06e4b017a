"""The streaming decision tree: a streaming decision forest of one tree."""

from riparian.models.streaming_forest.entries import STREAMING_DECISION_TREE
from riparian.models.streaming_forest.streaming_decision_forest import StreamingDecisionForest


class StreamingDecisionTree(StreamingDecisionForest):
    """Streaming decision tree (SDT): one tree of a StreamingDecisionForest, that tries all features in each node.

    Missing values, nominal features, weights, buffered labels and the bound on memory: as there. Class probabilities
    are the shares of a leaf.

    Parameters
    ----------
    schema : Schema
        Task "classification".
    seed : int
        Of the order in which features are tried: the first of equally good ones is taken.
    batch_size, window, min_split, leaf_values, max_nodes
        See StreamingDecisionForest. Batches are greater by default: the first one makes the upper splits, and the tree
        is never begun anew.

    References
    ----------
    H. Xu, J. Dey, S. Panda and J. T. Vogelstein: Streaming decision trees and forests. arXiv:2110.08483, 2021.

    Examples
    --------
    >>> learner = StreamingDecisionTree(Schema((0, 3), 2, "classification"), batch_size=50)
    >>> x = np.random.default_rng(1).integers(0, 3, (500, 2)).astype(float)
    >>> learner.learn_many(x, (x[:, 1] == 2).astype(float))
    >>> learner.predict_many([[0.0, 2.0]]).tolist()
    [[0.0, 1.0]]
    """

    entry = STREAMING_DECISION_TREE
