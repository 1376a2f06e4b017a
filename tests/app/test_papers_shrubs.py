"""What the tables of the shrub ensembles' paper are made of: fronts, and settings that are drawn."""

import numpy as np

from benchmarks.papers import frame
from benchmarks.papers import shrub_ensembles as paper
from benchmarks.papers.shrub_ensembles_published import ACCURACY, AREA, BELOW_1, BELOW_10, SHAPES, SIZE, TIME


def setting(accuracy: float, n_bytes: float) -> paper.Setting:
    nothing = np.zeros(0)
    run = frame.Run(0.0, accuracy, 0.0, 0.0, 0.0, 0, n_bytes, 0, 0.0, nothing, nothing, nothing, nothing)
    return paper.Setting("none", {}, [run])


def test_the_area_is_that_of_steps_from_the_smallest_model_to_the_biggest() -> None:
    settings = [setting(90.0, 400.0), setting(60.0, 100.0), setting(50.0, 200.0), setting(99.0, 2000.0)]
    # Nothing below 100 bytes, .6 to 400 (the one of .5 is dominated), .9 to 1,000; what is bigger counts for nothing.
    assert np.isclose(paper.area(settings, 1000.0), (0.6 * 300 + 0.9 * 600) / 1000)
    assert paper.area([], 1000.0) == 0.0


def test_the_best_setting_is_the_most_accurate_below_a_bound() -> None:
    field = paper.Field(10, {"HT": [setting(90.0, 400.0), setting(60.0, 100.0)]})
    assert [field.best("HT", bound) for bound in (50.0, 399.0, np.inf)] == [None, *field.settings["HT"][::-1]]


def test_settings_are_drawn_from_the_papers_space_and_always_the_same() -> None:
    drawn = paper.drawn("elec", "SE")
    assert drawn == paper.drawn("elec", "SE") != paper.drawn("weather", "SE")
    assert len(drawn) == paper.DRAWN_SHRUBS
    for one in drawn:
        assert one["window"] <= paper.MOST_WINDOW
        assert one["window"] * one["n_trees"] <= paper.MOST_WORK
        assert {key: one[key] for key in paper.ALGORITHM_1} == paper.ALGORITHM_1
    assert paper.drawn("elec", "NB") == [{}]
    assert paper.drawn("elec", "HT")[0] == {}


def test_every_published_table_has_every_data_set() -> None:
    assert all(set(table) == set(SHAPES) for table in (AREA, ACCURACY, SIZE, TIME, BELOW_10, BELOW_1))
