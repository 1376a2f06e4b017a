"""The registry's entries of learners for bags of instances."""

from riparian.models.entry import MULTI_INSTANCE, Entry, Parameter, choice

_WINDOW = (
    Parameter("window", int, 1000, 1, 10_000_000, text="newest bags that a model is made of"),
    Parameter("max_instances", int, 20_000, 1, 100_000_000, text="bound on memory: instances of these bags"),
    Parameter("refit_every", int, 50, 1, 1e9, text="bags learned until the model is made anew (sooner at first)"),
)

MITI = Entry(
    name="miti",
    cls="riparian.models.bags.miti:MITI",
    tasks=(MULTI_INSTANCE,),
    parameters=(
        *_WINDOW,
        Parameter("size_exponent", float, 0.85, 0.0, 10.0, text="instances weigh less in a large bag: 0 not, 1 fully"),
        Parameter("k", float, 5.0, 0.0, 1e9, text="evidence that a proportion of positives needs"),
        choice(
            "split_criterion",
            "max-bepp gini sum-squared-bepp",
            "merit of a test, of the estimated proportions of positives in both halves",
            "gini",
        ),
    ),
    paper="H. Blockeel, D. Page and A. Srinivasan: Multi-instance tree learning. ICML 2005.",
    text="A decision tree for bags, grown best first; a positive leaf explains the bags with an instance there.",
)
QUICK_DIVERSE_DENSITY = Entry(
    name="quick-diverse-density",
    cls="riparian.models.bags.quick_diverse_density:QuickDiverseDensity",
    tasks=(MULTI_INSTANCE,),
    parameters=(
        *_WINDOW,
        Parameter("max_iterations", int, 2, 1, 1000, text="points tried, each with a scale of its own"),
        Parameter("max_steps", int, 200, 0, 1_000_000, text="steps of the optimisation of a scale"),
        Parameter("scale", float, 1.0, 1e-6, 1e6, text="of the features at first, times the root of their number"),
        Parameter("cap", float, 30.0, 1e-3, 1e9, text="most that one positive bag far away counts"),
    ),
    paper="J. Foulds and E. Frank: Speeding up and boosting diverse density learning. Discovery Science 2010.",
    text="The point that all positive bags have an instance near to and no negative one has, and its scale.",
)


ENTRIES = (MITI, QUICK_DIVERSE_DENSITY)
