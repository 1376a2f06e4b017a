"""The registry's entries of soft trees."""

from riparian.models.entry import CLASSIFICATION, REGRESSION, Entry, Parameter

_TEL = (
    "H. Hazimeh, N. Ponomareva, P. Mol, Z. Tan and R. Mazumder: The tree ensemble layer: differentiability meets "
    "conditional computation. ICML 2020."
)
_ADAM = (
    Parameter("learning_rate", float, 0.01, 0.0, 10.0, text="of Adam"),
    Parameter("beta1", float, 0.5, 0.0, 0.9999, text="of Adam: how long gradients are averaged; low for drift"),
    Parameter("beta2", float, 0.999, 0.0, 0.999999, text="of Adam: how long squared gradients are averaged"),
)

SOFT_HOEFFDING_TREE = Entry(
    name="soft-hoeffding-tree",
    cls="riparian.models.soft.soft_hoeffding_tree:SoftHoeffdingTree",
    tasks=(CLASSIFICATION, REGRESSION),
    parameters=(
        Parameter("max_depth", int, 7, 0, 12, text="leaves at this depth do not split (root: 0); bounds memory"),
        Parameter("alpha", float, 0.7, 0.0, 1.0, text="share of the linear form in a gate; low is transparent"),
        Parameter("gamma", float, 2.0, 1e-6, 1e6, text="width of the smooth step; low routes harder"),
        *_ADAM,
        Parameter("min_reach", float, 0.25, 0.05, 1.0, text="leaves reached with less do not observe an instance"),
        Parameter("grace_period", int, 50, 1, 1e9, text="weight a leaf sees between two split attempts"),
        Parameter("delta", float, 0.01, 1e-300, 1.0, text="probability that a split differs from infinite data's"),
        Parameter("tie_threshold", float, 1.0, 0.0, None, text="Hoeffding bound below which ties are split"),
        Parameter("significance", float, 0.01, 1e-12, 1.0, text="level at which a split beats chance; 1: not asked"),
    ),
    paper="K. Köbschall, L. Hartung and S. Kramer: Soft Hoeffding tree: a transparent and differentiable model on "
    "data streams. Discovery Science 2024.",
    text="Grows like a Hoeffding tree, routes softly, learns its weights by gradient descent.",
    free=("min_reach", "grace_period", "delta", "tie_threshold", "significance", *(p.name for p in _ADAM)),
)
SOFT_TREE = Entry(
    name="soft-tree",
    cls="riparian.models.soft.soft_tree:SoftTree",
    tasks=(CLASSIFICATION, REGRESSION),
    parameters=(
        Parameter("depth", int, 5, 0, 12, text="of all leaves; bounds memory"),
        Parameter("n_trees", int, 1, 1, 1000, text="trees whose outputs are added"),
        Parameter("gamma", float, 1.0, 1e-6, 1e6, text="width of the smooth step; low routes harder"),
        *_ADAM,
    ),
    paper=_TEL,
    text="Soft trees of fixed depth: one, or the sum of an ensemble, learned by gradient descent.",
    check="riparian.models.soft.bounds:check",
)
MODEL_POOL = Entry(
    name="model-pool",
    cls="riparian.models.soft.model_pool:ModelPool",
    tasks=(CLASSIFICATION, REGRESSION),
    parameters=(
        Parameter("of", str, "auto", text="model of the candidates; auto: soft-hoeffding-tree, for values soft-tree"),
        Parameter(
            "candidates",
            str,
            "auto",
            text="values of its parameters, all combined: 'alpha=0.3,0.7; max_depth=5,7'; auto: usual ones",
        ),
        Parameter("learning_share", float, 0.5, 0.0, 1.0, text="share of the candidates that learn an instance"),
        Parameter("n_explored", int, 3, 0, 100, text="of these, how many are drawn whatever their losses"),
        Parameter("fading", float, 0.999, 0.5, 1.0, text="factor by which losses fade with each label"),
    ),
    paper="N. Gunasekara, H. M. Gomes, B. Pfahringer and A. Bifet: Online hyperparameter optimization for "
    "streaming neural networks. IJCNN 2022.",
    text="Candidates of other parameters: those with the least loss learn, the best one predicts.",
    check="riparian.models.soft.candidates:check",
)


ENTRIES = (SOFT_HOEFFDING_TREE, SOFT_TREE, MODEL_POOL)
