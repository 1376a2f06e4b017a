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
    Entry(
        name="leveraging-bagging",
        cls="models.ensemble.leveraging:LeveragingBagging",
        tasks=(CLASSIFICATION,),
        parameters=(
            N_MODELS,
            THREADS,
            VOTE,
            Parameter("rate", float, 6.0, 1e-3, 100.0, text="mean of the Poisson draws that weigh labels"),
            Parameter("drift_delta", float, 0.002, 1e-300, 1.0, text="confidence of ADWIN that errors have risen"),
            *TREE,
        ),
        paper="A. Bifet, G. Holmes and B. Pfahringer: Leveraging bagging for evolving data streams. ECML PKDD 2010.",
        text="Online bagging with heavier weights; where ADWIN finds that errors rise, the worst tree begins anew.",
    ),
    Entry(
        name="smooth-boost",
        cls="models.ensemble.boosting:SmoothBoost",
        tasks=(CLASSIFICATION,),
        parameters=(
            N_MODELS,
            THREADS,
            VOTE,
            Parameter("gamma", float, 0.1, 0.0, 0.999, text="advantage over guessing that a tree is trusted to have"),
            *TREE,
        ),
        paper="R. A. Servedio: Smooth boosting and learning with malicious noise. Journal of Machine Learning Research "
        "4, 2003.",
        text="Hoeffding trees in a chain; a tree learns with less weight what those before it got right.",
    ),
    Entry(
        name="online-boosting",
        cls="models.ensemble.boosting:OnlineBoosting",
        tasks=(CLASSIFICATION,),
        parameters=(
            N_MODELS,
            THREADS,
            Parameter("poisson", bool, True, text="a tree learns a label as often as a draw says, not with its weight"),
            *TREE,
        ),
        paper="N. C. Oza and S. Russell: Online bagging and boosting. AISTATS 2001.",
        text="AdaBoost on a stream: a tree learns more of what those before it got wrong.",
    ),
)


def find(name: str) -> Entry:
    """The entry called `name`."""
    return next(entry for entry in ENTRIES if entry.name == name)
