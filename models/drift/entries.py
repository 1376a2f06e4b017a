"""Every drift detector by name, with its parameters. Plain data: the stream file is checked without numba."""

from typing import NamedTuple

from models.entry import Parameter

CONFIDENCES = (
    Parameter("drift_confidence", float, 0.001, 1e-300, 1.0, text="error probability of a drift"),
    Parameter("warning_confidence", float, 0.005, 1e-300, 1.0, text="error probability of a warning"),
)


class Entry(NamedTuple):
    """A detector. cls : where it is, as "module:Class". errors_only : it is about rates of errors, not about values."""

    name: str
    cls: str
    parameters: tuple[Parameter, ...]
    errors_only: bool = False


ADWIN = Entry(
    "adwin",
    "models.drift.adwin:Adwin",
    (
        Parameter("delta", float, 0.002, 1e-300, 1.0, text="confidence of a cut"),
        Parameter("clock", int, 32, 1, 1 << 31, text="values between two searches for a cut"),
        Parameter("max_buckets", int, 5, 2, 1000, text="buckets of one size"),
        Parameter("min_side", int, 5, 1, 1 << 31, text="values near either end without a cut"),
    ),
)
DDM = Entry(
    "ddm",
    "models.drift.error_rate:Ddm",
    (
        Parameter("min_values", int, 30, 1, 1 << 31, text="values before the first test"),
        Parameter("warning", float, 2.0, 0.0, 1e6, text="deviations to a warning"),
        Parameter("drift", float, 3.0, 0.0, 1e6, text="deviations to a drift"),
    ),
    errors_only=True,
)
EDDM = Entry(
    "eddm",
    "models.drift.error_rate:Eddm",
    (
        Parameter("min_values", int, 30, 1, 1 << 31, text="values before the greatest distance is kept"),
        Parameter("min_errors", int, 30, 1, 1 << 31, text="mistakes before the first test"),
        Parameter("warning", float, 0.95, 0.0, 1.0, text="share of the greatest distance: warning"),
        Parameter("drift", float, 0.9, 0.0, 1.0, text="share of the greatest distance: drift"),
    ),
    errors_only=True,
)
HDDM_A = Entry(
    "hddm-a",
    "models.drift.hoeffding_bound:HddmA",
    (*CONFIDENCES, Parameter("two_sided", bool, True, text="start anew when the mean falls")),
)
HDDM_W = Entry(
    "hddm-w",
    "models.drift.hoeffding_bound:HddmW",
    (
        *CONFIDENCES,
        Parameter("fading", float, 0.05, 1e-9, 1.0, text="weight of the newest value (lambda)"),
        Parameter("two_sided", bool, False, text="start anew when the mean falls"),
    ),
)
KSWIN = Entry(
    "kswin",
    "models.drift.kswin:Kswin",
    (
        Parameter("alpha", float, 0.005, 1e-300, 1.0, text="significance of a test; there is one at each value"),
        Parameter("window_size", int, 100, 2, 1 << 24, text="values in the window"),
        Parameter("stat_size", int, 30, 1, 1 << 23, text="newest values, compared with as many older ones"),
    ),
)
PAGE_HINKLEY = Entry(
    "page-hinkley",
    "models.drift.page_hinkley:PageHinkley",
    (
        Parameter("min_values", int, 30, 1, 1 << 31, text="values before the first test"),
        Parameter("delta", float, 0.005, 0.0, 1e300, text="change of the mean that does not count"),
        Parameter("threshold", float, 50.0, 0.0, 1e300, text="cumulated deviation that is a drift (lambda)"),
        Parameter("alpha", float, 0.9999, 0.0, 1.0, text="factor by which the cumulated deviation fades"),
        Parameter("two_sided", bool, False, text="decreases are drifts too"),
    ),
)

ENTRIES = (ADWIN, DDM, EDDM, HDDM_A, HDDM_W, KSWIN, PAGE_HINKLEY)
