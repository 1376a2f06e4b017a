"""The registry's entry of nearest neighbours."""

from riparian.models.entry import CLASSIFICATION, REGRESSION, Entry, Parameter

NEAREST_NEIGHBOURS = Entry(
    name="nearest-neighbours",
    cls="riparian.models.neighbours.nearest_neighbours:NearestNeighbours",
    tasks=(CLASSIFICATION, REGRESSION),
    parameters=(
        Parameter("k", int, 5, 1, 100, text="neighbours that vote"),
        Parameter(
            "window", int, 1000, 8, 10_000, text="most rows in the short-term memory; a label costs up to its square"
        ),
        Parameter("long", int, 1000, 0, 10_000, text="most rows in the long-term memory, likewise; 0: none"),
        Parameter(
            "minimum", int, 50, 2, 10_000, text="fewest rows of the short-term memory; a quarter of window at most"
        ),
    ),
    paper="V. Losing, B. Hammer and H. Wersing: KNN classifier with self adjusting memory for heterogeneous concept "
    "drift. ICDM 2016.",
    text="The nearest remembered rows vote. One memory has the newest rows, one what agrees with them.",
)


ENTRIES = (NEAREST_NEIGHBOURS,)
