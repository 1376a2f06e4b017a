"""The registry's entries of ensembles over incremental trees."""

from models.entry import CLASSIFICATION, Entry, Parameter
from models.hoeffding import entries as hoeffding

N_MODELS = Parameter("n_models", int, 10, 1, 1000, text="members")
THREADS = Parameter("threads", int, 1, 1, 64, text="threads that run members; same results")
VOTE = Parameter(
    "vote",
    str,
    "average",
    choices=("average", "weighted", "majority"),
    text="mean of the members' probabilities, weighted by their recent accuracy or not, or one vote a member",
)
# Of the trees, under their own names.
TREE = next(entry.parameters for entry in hoeffding.ENTRIES if entry.name == "hoeffding-tree")

ENTRIES = (
    Entry(
        name="online-bagging",
        cls="models.ensemble.bagging:OnlineBagging",
        tasks=(CLASSIFICATION,),
        parameters=(N_MODELS, THREADS, VOTE, *TREE),
        paper="N. C. Oza and S. Russell: Online bagging and boosting. AISTATS 2001.",
        text="Hoeffding trees, each over an online bootstrap sample; the mean of their probabilities.",
    ),
)


def find(name: str) -> Entry:
    """The entry called `name`."""
    return next(entry for entry in ENTRIES if entry.name == name)
