"""Every synthetic stream by name, with its parameters, ranges and paper; and streams that drift.

As in models/registry.py the entries are plain data, and modules are imported when a stream is opened. A test compares
what an entry holds about parameters with the signature of the module's `source`.
"""

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from riparian.models.entry import CLASSIFICATION, REGRESSION, Parameter, checked, choice, suggest
from riparian.models.streams import EndlessStream


class StreamEntry(NamedTuple):
    """A stream. Its `source` stands in the module of its name."""

    name: str
    parameters: tuple[Parameter, ...]
    paper: str
    text: str
    tasks: tuple[str, ...] = (CLASSIFICATION,)

    @property
    def module(self) -> str:
        return f"riparian.models.streams.generators.{self.name.replace('-', '_')}"

    def source(self, seed: int = 0, **parameters: Any) -> EndlessStream:
        """Open the stream (and import numba). ValueError where parameters do not fit together."""
        opened: EndlessStream = importlib.import_module(self.module).source(seed, **parameters)
        return opened


class ConceptDrift(NamedTuple):
    """A change of concept.

    at : number, from 0, of the first new instance, or the middle of a gradual change of about `width` instances (0:
        abrupt).
    parameters : those of the new concept that differ from the stream's own.
    """

    at: int
    width: int
    parameters: Mapping[str, Any]


_ENTRIES = (
    StreamEntry(
        name="agrawal",
        parameters=(
            Parameter("function", int, 0, 0, 9, text="class function"),
            Parameter("perturbation", float, 0.05, 0.0, 1.0, text="share of its range that a value is moved by"),
        ),
        paper="R. Agrawal, T. Imielinski and A. Swami: Database mining: a performance perspective. IEEE TKDE 5, 1993.",
        text="Loan applicants: six numeric and three nominal features, ten functions, two classes.",
    ),
    StreamEntry(
        name="friedman",
        tasks=(REGRESSION,),
        parameters=(
            Parameter("function", int, 0, 0, 2, text="0 Friedman's; 1 and 2 give the features other parts"),
            Parameter("noise", float, 1.0, 0.0, 1e6, text="standard deviation of the noise"),
        ),
        paper="J. Friedman: Multivariate adaptive regression splines. Annals of Statistics 19, 1991.",
        text="A sine, a square and two lines of five among ten numeric features.",
    ),
    StreamEntry(
        name="hyperplane",
        parameters=(
            Parameter("n_features", int, 10, 1, 10_000, text="numeric features, all relevant"),
            Parameter("n_drift", int, 2, 0, 10_000, text="weights of the plane that move"),
            Parameter("speed", float, 0.001, 0.0, 1.0, text="by how much they move after each instance"),
            Parameter("turn", float, 0.1, 0.0, 1.0, text="probability that a weight's direction turns round"),
            Parameter("noise", float, 0.05, 0.0, 1.0, text="probability that the class is inverted"),
        ),
        paper="G. Hulten, L. Spencer and P. Domingos: Mining time-changing data streams. KDD 2001.",
        text="Points on either side of a plane that turns a little with every instance.",
    ),
    StreamEntry(
        name="led",
        parameters=(
            Parameter("noise", float, 0.1, 0.0, 1.0, text="probability that a segment is inverted"),
            Parameter("n_irrelevant", int, 17, 0, 10_000, text="features that are fair coins"),
            Parameter("n_swapped", int, 0, 0, 7, text="concept: segments that have changed places with coins"),
        ),
        paper="L. Breiman, J. Friedman, R. Olshen and C. Stone: Classification and regression trees. 1984.",
        text="The digit shown by seven segments, among features that mean nothing; all nominal, ten classes.",
    ),
    StreamEntry(
        name="moving-squares",
        parameters=(
            Parameter("speed", float, 0.00025, 0.0, 1.0, text="distance that the squares move at each instance"),
        ),
        paper="V. Losing, B. Hammer and H. Wersing: KNN classifier with self adjusting memory for heterogeneous "
        "concept drift. ICDM 2016.",
        text="Four squares in a row, one a class, that move to and fro: what was learned soon turns wrong.",
    ),
    StreamEntry(
        name="payments",
        parameters=(
            Parameter("customers", int, 5000, 1, 100_000, text="cards"),
            Parameter("terminals", int, 10_000, 1, 100_000, text="places where they are used"),
            Parameter("radius", float, 5.0, 0.1, 20.0, text="how far a customer goes, in a square of side 100"),
            Parameter("bad_customers", int, 3, 0, 1000, text="cards that are compromised anew each day"),
            Parameter("bad_terminals", int, 2, 0, 1000, text="terminals that are compromised anew each day"),
            choice("labels", "both fraud", "both, a week late; or of fraud alone, 1 to 60 days"),
            Parameter("blocked", float, 0.0, 0.0, 1.0, text="share of payments of which no label will come"),
            Parameter(
                "campaign", int, 0, 0, 10_000, text="days of one pattern, until fraud changes it; 0: all, for ever"
            ),
        ),
        paper="Y. Le Borgne, W. Siblini, B. Lebichot and G. Bontempi: Reproducible machine learning for credit card "
        "fraud detection. Practical handbook, ULB 2022.",
        text="Payments by card at terminals, of which 1 in 120 is fraud: a card's and a terminal's past show it.",
    ),
    StreamEntry(
        name="random-rbf",
        parameters=(
            Parameter("n_features", int, 10, 1, 10_000, text="numeric features"),
            Parameter("n_classes", int, 4, 2, 1000, text="classes"),
            Parameter("n_centroids", int, 50, 1, 100_000, text="clouds"),
            Parameter("speed", float, 0.001, 0.0, 1.0, text="distance that a cloud moves at each instance"),
        ),
        paper="A. Bifet, G. Holmes, R. Kirkby and B. Pfahringer: MOA: massive online analysis. JMLR 11, 2010.",
        text="Clouds around centroids that move; drawn anew for each --seed.",
    ),
    StreamEntry(
        name="rare",
        parameters=(
            Parameter("ratio", float, 0.002, 0.0, 1.0, text="probability of class 1"),
            Parameter("shift", float, 2.5, 0.0, 1000.0, text="of two of its features, in standard deviations"),
            Parameter("function", int, 0, 0, 1, text="which features are shifted: of x1 to x4, or of x5 to x8"),
        ),
        paper="Own: as fraud among payments.",
        text="A class that is one instance in 500, in eight numeric features.",
    ),
    StreamEntry(
        name="sea",
        parameters=(
            Parameter("function", int, 0, 0, 3, text="concept: a threshold of 8, 9, 7 or 9.5"),
            Parameter("noise", float, 0.1, 0.0, 1.0, text="probability that the class is inverted"),
        ),
        paper="W. Street and Y. Kim: A streaming ensemble algorithm (SEA) for large-scale classification. KDD 2001.",
        text="Whether the sum of two out of three numeric features passes a threshold.",
    ),
    StreamEntry(
        name="sine",
        parameters=(
            Parameter("function", int, 0, 0, 3, text="0 SINE1, 1 its reverse, 2 SINE2, 3 its reverse"),
            Parameter("n_irrelevant", int, 2, 0, 10_000, text="numeric features that mean nothing"),
        ),
        paper="J. Gama, P. Medas, G. Castillo and P. Rodrigues: Learning with drift detection. SBIA 2004.",
        text="Points above or below a sine curve; no noise.",
    ),
    StreamEntry(
        name="stagger",
        parameters=(Parameter("function", int, 0, 0, 2, text="0 small and red, 1 green or circle, 2 medium or large"),),
        paper="J. Schlimmer and R. Granger: Incremental learning from noisy data. Machine Learning 1, 1986.",
        text="Size, colour and shape, and one of three rules; no noise.",
    ),
    StreamEntry(
        name="transient-chessboard",
        parameters=(
            Parameter("size", int, 8, 2, 1000, text="fields along a side, and classes"),
            Parameter("alone", int, 250, 1, 1_000_000_000, text="instances of a field that is shown alone"),
            Parameter("together", int, 1000, 0, 1_000_000_000, text="instances of the whole board, after four fields"),
        ),
        paper="V. Losing, B. Hammer and H. Wersing: KNN classifier with self adjusting memory for heterogeneous "
        "concept drift. ICDM 2016.",
        text="Fields of a chessboard one after the other, then all: places come and go, their classes stay.",
    ),
    StreamEntry(
        name="waveform",
        parameters=(
            Parameter("n_irrelevant", int, 0, 0, 10_000, text="features that mean nothing: 19 for the usual 40"),
        ),
        paper="L. Breiman, J. Friedman, R. Olshen and C. Stone: Classification and regression trees. 1984.",
        text="Mixtures of two of three triangular waves, sampled at 21 points; three classes.",
    ),
)

REGISTRY: dict[str, StreamEntry] = {entry.name: entry for entry in _ENTRIES}


def find(name: str) -> StreamEntry:
    """The entry called `name`. ValueError with the closest name otherwise."""
    if name in REGISTRY:
        return REGISTRY[name]
    raise ValueError(f"unknown stream {name!r}: {suggest(str(name), REGISTRY)}")


def validate(name: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Check the parameters of a stream and fill in the defaults, as models.registry.validate does for a learner."""
    entry = find(name)
    return checked(f"stream {name!r}", entry.parameters, parameters)


def open_source(
    name: str, seed: int = 0, parameters: Mapping[str, Any] | None = None, drifts: Sequence[ConceptDrift] = ()
) -> EndlessStream:
    """A stream, and what becomes of it.

    Parameters
    ----------
    name : str
        A name of the registry.
    seed : int
        Of all random numbers. Every concept draws instances of its own, so also one that comes again.
    parameters : mapping of str to value
        As `--set` gives them.
    drifts : sequence of ConceptDrift
        In order of `at`.

    Raises
    ------
    ValueError
        One sentence that names the stream, parameter or drift, what was found, and what would do.
    """
    entry, own = find(name), dict(parameters or {})
    opened = entry.source(seed, **validate(name, own))
    before = 0
    for k, drift in enumerate(drifts, 1):
        if drift.at <= before:
            raise ValueError(f"a drift at {drift.at} comes after one at {before}: give them in order, from 1 on")
        from riparian.models.streams.concept_drift import drifting

        concept = entry.source(seed + (2 * k << 40), **validate(name, own | dict(drift.parameters)))
        opened = drifting(opened, concept, drift.at, drift.width, seed + (2 * k + 1 << 40))
        before = drift.at
    return opened
