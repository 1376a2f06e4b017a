"""States that were torn: what is declared of arrays is looked at before a kernel follows them."""

from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from riparian import checks
from riparian.models.contract import Schema
from riparian.models.drift import create as create_detector
from riparian.models.evaluation.comparison import Comparison
from riparian.models.evaluation.estimation import Estimation
from riparian.models.evaluation.prequential import Prequential
from riparian.models.layout import Paths, StateLayout
from riparian.models.predictions.calibration import Calibration
from riparian.models.predictions.conformal import Conformal
from riparian.models.predictions.decision import Threshold
from riparian.models.registry import create
from riparian.models.restoring import DamagedError, check, check_shapes, restore


def grown(name, task="classification", n=600, **parameters):
    """What has learned, and a function that restores its state with some arrays exchanged."""
    learner = create(name, checks.schema_of(task), seed=1, **parameters)
    x, y = checks.rows(n, task)
    checks.learn(learner, x, y)
    good = {field: array.copy() for field, array in learner.state()._asdict().items()}

    def restored(**changed):
        fresh = create(name, checks.schema_of(task), seed=1, **parameters)
        restore(fresh, {**good, **changed}, "champion")
        return fresh

    return good, restored, x


def test_a_tree_leads_to_its_own_nodes_and_ends():
    good, restored, x = grown("hoeffding-tree", grace_period=50, tie_threshold=0.2)
    assert restored().predict_many(x).shape == (len(x), checks.N_CLASSES)
    links = good["links"]
    inner, leaf = int(np.flatnonzero(links[:, 0] >= 0)[-1]), int(np.flatnonzero(links[:, 0] < 0)[-1])
    for row, column, value, said in (
        (inner, 1, inner, "leads to a node that is not below"),
        (inner, 1, len(links) - 1, "numbers outside -1 .. "),  # the second child is beyond
        (inner, 2, 0, "leads to a node that is not below"),
        (inner, 0, 99, "numbers outside -2 .. 4, 99"),
        (leaf, 7, len(good["stats"]), "numbers outside -2 .. "),
    ):
        changed = links.copy()
        changed[row, column] = value
        with pytest.raises(DamagedError, match=f"^champion: the state is none that this .*, links .*{said}"):
            restored(links=changed)
    with pytest.raises(DamagedError, match="links leads to a node that is not below"):
        restored(links=np.where(np.arange(len(links))[:, None] < 1, links, 0).astype(np.int32))  # zeros from there on


def test_a_map_of_children_leads_below():
    good, restored, _ = grown(
        "extremely-fast-decision-tree", n=3000, grace_period=50, reevaluation_period=100, tie_threshold=0.2
    )
    assert len(good["child_of_value"]) > 1
    for value in (0, len(good["links"])):
        with pytest.raises(DamagedError, match=r"child_of_value (leads to|has numbers outside)"):
            restored(child_of_value=np.full_like(good["child_of_value"], value))
    links = good["links"].copy()
    links[links[:, 0] >= 0, 2] = len(good["child_of_value"]) + 1
    with pytest.raises(DamagedError, match=r"links has numbers outside 0 \.\. "):
        restored(links=links)


def test_a_member_of_an_ensemble_is_named():
    good, restored, _ = grown("online-bagging", n_models=3, grace_period=50, tie_threshold=0.2)
    links = good["member_links"].copy()
    links[1, 0, 0] = 10_000
    with pytest.raises(DamagedError, match=r"^champion: member 1: .*links has numbers outside"):
        restored(member_links=links)


def test_what_a_learner_itself_says_of_its_state_is_said():
    learner = create("adaptive-random-forest", Schema((0,) * 5, 2, "classification"), n_models=1, max_features="sqrt")
    other = create("adaptive-random-forest", Schema((0,) * 5, 2, "classification"), n_models=1, max_features="all")
    with pytest.raises(DamagedError, match="champion: member 0: its trees look at another number of features"):
        restore(learner, other.state()._asdict(), "champion")


def test_types_and_shapes_are_those_of_a_fresh_state():
    like = {"a": np.zeros((2, 3)), "b": np.zeros(2, np.int64)}
    rows = {"a b": "n"}
    assert check_shapes({"a": np.zeros((5, 3)), "b": np.zeros(5, np.int64)}, like, rows)["n"] == 5
    assert check_shapes({"b": np.zeros(2, np.int64)}, like) == {}
    for changed, said in (
        ({"a": np.zeros((5, 3), np.float32)}, "a has numbers of type float32, not float64"),
        ({"a": np.zeros((5, 4))}, r"a has shape \(5, 4\), not \(any, 3\)"),
        ({"a": np.zeros(5)}, r"a has shape \(5,\), not \(any, 3\)"),
        ({"a": np.zeros((5, 3)), "b": np.zeros(4, np.int64)}, r"b has shape \(4,\), not \(5\)"),
    ):
        with pytest.raises(DamagedError, match=said):
            check_shapes(changed, like, rows)


class DeclaredState(NamedTuple):
    links: NDArray[np.int32]


class Declared:
    """A state of one array of links, as somebody declares it."""

    layout = StateLayout(rows={"links": "nodes"}, paths=(Paths(("links", 0), (("links", 0),), ("links", 1)),))

    def state(self):
        return DeclaredState(np.zeros((1, 2), np.int32))


@pytest.mark.parametrize("seed", range(60))
def test_paths_that_are_taken_end(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 8))
    links = np.column_stack([rng.integers(-1, n + 1, n), rng.integers(0, 4, n)]).astype(np.int32)
    try:
        check(Declared(), {"links": links})
    except DamagedError:
        return
    for node in range(n):
        steps = 0
        while links[node, 0] >= 0:
            node, steps = links[node, 0], steps + 1
            assert steps <= n


def test_a_detector_of_other_parameters_is_refused():
    good = create_detector("kswin", window_size=80).state()._asdict()
    with pytest.raises(DamagedError, match=r"^a detector: .* window has shape \(80,\), not \(100\)"):
        restore(create_detector("kswin", window_size=100), good, "a detector")


def test_a_check_changes_nothing():
    good, _, _ = grown("hoeffding-tree", grace_period=50)
    before = {field: array.tobytes() for field, array in good.items()}
    for array in good.values():
        array.flags.writeable = False
    check(create("hoeffding-tree", checks.schema_of("classification"), grace_period=50), good)
    assert before == {field: array.tobytes() for field, array in good.items()}


@pytest.mark.parametrize(
    "fresh",
    [
        lambda: Prequential("classification", 3),
        lambda: Prequential("anomaly", 1, alerts=True),
        lambda: Comparison("classification"),
        Estimation,
        lambda: Conformal("classification", 3, 0.9),
        lambda: Calibration(3),
        lambda: Threshold("recall", 0.8),
    ],
)
def test_what_is_said_about_models_has_its_shapes(fresh):
    good = fresh().state()._asdict()
    restore(fresh(), good)
    for name, array in good.items():
        for torn in (array[None], array.astype(np.complex64)):
            with pytest.raises(DamagedError, match=f"^the figures: .*{name} has"):
                restore(fresh(), {**good, name: torn}, "the figures")
