"""The tables of stochastic gradient trees: each data set and learner of the paper has its row."""

from pathlib import Path

from benchmarks.papers import stochastic_gradient_trees as module
from benchmarks.papers.frame import Options


def test_every_table_and_figure_is_there_without_any_file(tmp_path: Path) -> None:
    sections = list(module.make(Options(tmp_path, 1, 1500)))
    titles = [section.title.partition(":")[0] for section in sections]
    assert titles[:4] == ["Table 1", "Table 2", "Table 2, on the data at hand", "Figure 1"]
    assert titles[4:] == ["Table 3", "Table 3, on the data at hand", "Figure 2", "Table 4"]
    for section in sections:
        assert {len(row) for row in section.rows} == {len(section.head)}
    assert [row[-1] for row in sections[0].rows] == [module.absent(name) for name in module.ATTRIBUTES]
    assert [row[0] for row in sections[-1].rows] == list(module.TABLE_4)
    assert all(row[4].startswith("not at hand") for row in sections[-1].rows)
    ours = {row[0]: row[1:] for row in sections[2].rows}
    assert len(ours) == 3 * len(module.CLASSIFIERS)
    assert all(0.0 < float(value) < 60.0 for name, row in ours.items() for value in row if name.endswith("error"))
