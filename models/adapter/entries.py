"""The registry's entry of models that are not Riparian's."""

from riparian.models.entry import CLASSIFICATION, REGRESSION, Entry, Parameter

EXTERNAL = Entry(
    name="external",
    cls="riparian.models.adapter.external:External",
    tasks=(CLASSIFICATION, REGRESSION),
    parameters=(
        Parameter(
            "import_path", str, None, text="class or function that makes the model; none: River's Hoeffding tree"
        ),
        Parameter("arguments", dict, None, text="what it is called with, by name"),
        Parameter("as_champion", bool, False, text="whether it may be the champion"),
    ),
    paper="What the library documents of the model.",
    text="Any model of River or with scikit-learn's partial_fit. Slow: Python, an instance at a time.",
    check="riparian.models.adapter.imported:check",
    slow=True,
)


ENTRIES = (EXTERNAL,)
