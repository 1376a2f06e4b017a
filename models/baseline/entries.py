"""The registry's entries of what a tree must beat."""

from riparian.models.entry import CLASSIFICATION, MULTI_INSTANCE, REGRESSION, Entry, Parameter

PERSISTENCE = (
    "I. Žliobaitė et al.: Evaluation methods and decision theory for classification of streaming data with "
    "temporal dependence. Machine Learning 98, 2015."
)

NAIVE_BAYES = Entry(
    name="naive-bayes",
    cls="riparian.models.baseline.naive_bayes:NaiveBayes",
    tasks=(CLASSIFICATION,),
    parameters=(
        Parameter("window", float, None, 10.0, None, text="weight of labels that count, older ones fade; none: all"),
    ),
    paper="P. Langley, W. Iba and K. Thompson: An analysis of Bayesian classifiers. AAAI 1992.",
    text="Gaussian likelihoods for numeric features, counts for nominal ones, all independent.",
)
MAJORITY_CLASS = Entry(
    name="majority-class",
    cls="riparian.models.baseline.majority_class:MajorityClass",
    tasks=(CLASSIFICATION, MULTI_INSTANCE),
    parameters=(),
    paper=PERSISTENCE,
    text="Predicts the class frequencies so far: what a learner must beat to have learned anything.",
)
LAST_LABEL = Entry(
    name="last-label",
    cls="riparian.models.baseline.last_label:LastLabel",
    tasks=(CLASSIFICATION, REGRESSION, MULTI_INSTANCE),
    parameters=(),
    paper=PERSISTENCE,
    text="Repeats the last label or target learned: hard to beat where they are autocorrelated (elec: 85.3 %).",
)
MEAN = Entry(
    name="mean",
    cls="riparian.models.baseline.mean:Mean",
    tasks=(REGRESSION,),
    parameters=(Parameter("fading", float, 1.0, 0.0, 1.0, text="of what was learned, each label; 1: all count alike"),),
    paper=PERSISTENCE,
    text="Predicts the mean of the targets so far: what a regressor must beat to have learned anything.",
)


ENTRIES = (NAIVE_BAYES, MAJORITY_CLASS, LAST_LABEL, MEAN)
