"""The papers on streaming forests and on trees in general: what their modules name is there."""

import pytest

pytest.importorskip("sklearn")

from benchmarks.forests import STREAMING
from benchmarks.papers import overview, streaming_forests
from benchmarks.papers.data import FILES
from riparian.models.registry import REGISTRY, validate


def test_the_claims_of_the_figure_name_learners_and_data_sets_that_are_measured() -> None:
    learners = {*STREAMING, "random forest", "decision tree"}
    for name, _, ahead, behind in streaming_forests.CLAIMS:
        assert name in streaming_forests.SETS
        assert {ahead, behind} <= learners
    assert set(streaming_forests.ATTRIBUTES) == set(streaming_forests.SETS.values()) <= set(FILES)


def test_every_streaming_row_of_the_figure_is_a_valid_model() -> None:
    for model, parameters in STREAMING.values():
        validate(model, "classification", parameters)


def test_the_overview_maps_its_methods_to_learners_of_ours() -> None:
    for _, _, batch, streams in overview.METHODS:
        assert {batch, *streams} <= set(REGISTRY)
        assert set(streams) <= set(overview.STREAMING)
