"""Every drift detector by name, with its parameters. Plain data: the stream file is checked without numba."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from riparian.models.entry import Parameter, checked, named

CONFIDENCES = (
    Parameter("drift_confidence", float, 0.001, 1e-300, 1.0, text="error probability of a drift"),
    Parameter("warning_confidence", float, 0.005, 1e-300, 1.0, text="error probability of a warning"),
)


class DetectorEntry(NamedTuple):
    """A detector.

    name : what stream files call it.
    cls : where it is, as "module:Class".
    parameters : with types, ranges and defaults.
    paper : where it comes from.
    errors_only : whether it is about rates of errors, not about values.
    check : what checks the parameters together, once each is valid; or None.
    """

    name: str
    cls: str
    parameters: tuple[Parameter, ...]
    paper: str
    errors_only: bool = False
    check: Callable[[Mapping[str, Any]], None] | None = None

    def load(self) -> Any:
        """Import the class (and numba)."""
        return named(self.cls)

    def valid(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Every parameter, as given or defaulted; ValueError where one, or what they are together, is not valid."""
        parameters = checked(f"detector {self.name!r}", self.parameters, given)
        if self.check:
            self.check(parameters)
        return parameters


def _two_samples(parameters: Mapping[str, Any]) -> None:
    size, newest = parameters["window_size"], parameters["stat_size"]
    if size < 2 * newest:
        raise ValueError(f"window_size is {size}: give at least twice stat_size, {2 * newest}")


ADWIN = DetectorEntry(
    "adwin",
    "riparian.models.drift.adwin:Adwin",
    (
        Parameter("delta", float, 0.002, 1e-300, 1.0, text="confidence of a cut"),
        Parameter("clock", int, 32, 1, 1 << 31, text="values between two searches for a cut"),
        Parameter("max_buckets", int, 5, 2, 1000, text="buckets of one size"),
        Parameter("min_side", int, 5, 1, 1 << 31, text="values near either end without a cut"),
    ),
    "Bifet, Gavaldà: Learning from time-changing data with adaptive windowing. SDM 2007",
)
DDM = DetectorEntry(
    "ddm",
    "riparian.models.drift.error_rate:Ddm",
    (
        Parameter("min_values", int, 30, 1, 1 << 31, text="values before the first test"),
        Parameter("warning", float, 2.0, 0.0, 1e6, text="deviations to a warning"),
        Parameter("drift", float, 3.0, 0.0, 1e6, text="deviations to a drift"),
    ),
    "Gama, Medas, Castillo, Rodrigues: Learning with drift detection. SBIA 2004",
    errors_only=True,
)
EDDM = DetectorEntry(
    "eddm",
    "riparian.models.drift.error_rate:Eddm",
    (
        Parameter("min_values", int, 30, 1, 1 << 31, text="values before the greatest distance is kept"),
        Parameter("min_errors", int, 30, 1, 1 << 31, text="mistakes before the first test"),
        Parameter("warning", float, 0.95, 0.0, 1.0, text="share of the greatest distance: warning"),
        Parameter("drift", float, 0.9, 0.0, 1.0, text="share of the greatest distance: drift"),
    ),
    "Baena-García et al.: Early drift detection method. IWKDDS 2006",
    errors_only=True,
)
HDDM_A = DetectorEntry(
    "hddm-a",
    "riparian.models.drift.hoeffding_bound:HddmA",
    (*CONFIDENCES, Parameter("two_sided", bool, True, text="start anew when the mean falls")),
    "Frías-Blanco et al.: Online and non-parametric drift detection methods. IEEE TKDE 27, 2015",
)
HDDM_W = DetectorEntry(
    "hddm-w",
    "riparian.models.drift.hoeffding_bound:HddmW",
    (
        *CONFIDENCES,
        Parameter("fading", float, 0.05, 1e-9, 1.0, text="weight of the newest value (lambda)"),
        Parameter("two_sided", bool, False, text="start anew when the mean falls"),
    ),
    "Frías-Blanco et al.: Online and non-parametric drift detection methods. IEEE TKDE 27, 2015",
)
KSWIN = DetectorEntry(
    "kswin",
    "riparian.models.drift.kswin:Kswin",
    (
        Parameter("alpha", float, 0.005, 1e-300, 1.0, text="significance of a test; there is one at each value"),
        Parameter("window_size", int, 100, 2, 1 << 24, text="values in the window"),
        Parameter("stat_size", int, 30, 1, 1 << 23, text="newest values, compared with as many older ones"),
    ),
    "Raab, Heusinger, Schleif: Reactive soft prototype computing for concept drift streams. Neurocomputing 2020",
    check=_two_samples,
)
PAGE_HINKLEY = DetectorEntry(
    "page-hinkley",
    "riparian.models.drift.page_hinkley:PageHinkley",
    (
        Parameter("min_values", int, 30, 1, 1 << 31, text="values before the first test"),
        Parameter("delta", float, 0.005, 0.0, 1e300, text="change of the mean that does not count"),
        Parameter("threshold", float, 50.0, 0.0, 1e300, text="cumulated deviation that is a drift (lambda)"),
        Parameter("alpha", float, 0.9999, 0.0, 1.0, text="factor by which the cumulated deviation fades"),
        Parameter("two_sided", bool, False, text="decreases are drifts too"),
    ),
    "Page: Continuous inspection schemes. Biometrika 41, 1954",
)

ENTRIES = (ADWIN, DDM, EDDM, HDDM_A, HDDM_W, KSWIN, PAGE_HINKLEY)
DETECTORS = {entry.name: entry for entry in ENTRIES}
