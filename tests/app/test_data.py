"""CSV files: blocks, missing values, inferred types, and an error that says what to mend."""

import gzip

import numpy as np
import pytest

from riparian.app.dataset.dated import DatedFile
from riparian.app.dataset.files.data import DataFile
from riparian.app.errors import DataError

SMALL = "a,b,c\n1,x,UP\n2.5,,DOWN\n?,y,UP\n"


@pytest.fixture
def write(tmp_path):
    def write(text, name="data.csv", **options):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8", **options)
        return path

    return write


@pytest.fixture
def cut(write, monkeypatch):
    def cut(text, size):
        """A file of that text, which comes in blocks of that size."""
        file = DataFile(write(text))
        blocks = file.blocks
        monkeypatch.setattr(file, "blocks", lambda columns, limit=None: blocks(columns, limit, size))
        return file

    return cut


def columns(file, **options):
    blocks = list(file.blocks(range(len(file.names)), **options))
    return [[text for block in blocks for text in block.columns[j]] for j in range(len(file.names))]


def test_rows_come_as_columns(write):
    file = DataFile(write(SMALL))
    assert file.names == ("a", "b", "c")
    (block,) = file.blocks((2, 0))
    assert block.columns == [["UP", "DOWN", "UP"], ["1", "2.5", "?"]]
    assert block.lines == [2, 3, 4]
    assert file.count() == 3


def test_blocks_are_cut_by_size_and_limit(write):
    file = DataFile(write("a,b\n" + "".join(f"{i},{i}\n" for i in range(10))))
    assert [len(block) for block in file.blocks((0,), size=4)] == [4, 4, 2]
    assert [len(block) for block in file.blocks((0,), limit=5, size=4)] == [4, 1]
    assert columns(file, limit=3)[0] == ["0", "1", "2"]
    assert file.count(7) == 7
    assert columns(file, size=3) == columns(file)


def test_gzip_is_told_by_content_and_a_byte_order_mark_is_ignored(tmp_path):
    path = tmp_path / "packed.csv"
    path.write_bytes(gzip.compress(b"\xef\xbb\xbf" + SMALL.encode()))
    assert columns(DataFile(path)) == [["1", "2.5", "?"], ["x", "", "y"], ["UP", "DOWN", "UP"]]
    assert DataFile(path).names[0] == "a"


def test_quotes_blank_lines_and_carriage_returns(write):
    file = DataFile(write('a,b\r\n"1,5","two\r\nlines"\r\n\r\n2,"say ""so"""\r\n\r\n', newline=""))
    assert columns(file) == [["1,5", "2"], ["two\r\nlines", 'say "so"']]


def test_cells_between_semicolons_or_tabs_and_numbers_with_a_comma(write):
    file = DataFile(write('\ufeffPreis €;Ort;z\n1,5;"a,b; c";x\n-,25;Köln;y\n?;3,4,5;1,5e3\n'))
    assert file.names == ("Preis €", "Ort", "z")
    (block,) = file.blocks(range(3))
    assert [file.plain(block, 0, "Preis €"), *(file.values(block, j, file.names[j]) for j in (1, 2))] == [
        ["1.5", "-.25", "?"],
        ["a,b; c", "Köln", "3,4,5"],
        ["x", "y", "1,5e3"],
    ]
    assert file.types(target="z").features == {"Preis €": "numeric", "Ort": "nominal"}
    (block,) = file.blocks((0,))
    assert file.numbers(block, 0, "Preis €")[:2].tolist() == [1.5, -0.25]
    assert DataFile(write("a;b,c\n1;2,3\n")).names == ("a;b", "c")


def test_missing_values(write):
    file = DataFile(write("a,b,y\n1,x,1\n,?,2\n ? , z ,3\n"))
    (block,) = file.blocks((0, 1))
    assert np.array_equal(file.numbers(block, 0, "a"), [1.0, np.nan, np.nan], equal_nan=True)
    assert file.values(block, 1, "b") == ["x", None, "z"]


def test_booleans(write):
    file = DataFile(write("a,y\ntrue,1\nFalse,1\n1,1\n0,1\n?,1\nno,1\n"))
    (block,) = file.blocks((0,))
    assert file.booleans(block, 0, "a") == [True, False, True, False, None, False]
    (block,) = DataFile(write("a,y\n1,1\nmaybe,1\n")).blocks((0,))
    with pytest.raises(DataError, match=r"line 3 .* has 'maybe' in column 'a': expected true or false"):
        file.booleans(block, 0, "a")


def test_types_are_inferred(write):
    types = DataFile(write("n,s,m,k,y\n1,a,?,1,UP\n-2e3,b,7,x,DOWN\n,a,8,2,UP\n")).types()
    assert types.features == {"n": "numeric", "s": "nominal", "m": "numeric", "k": "nominal"}
    assert types.n_values == {"s": 2, "k": 3}
    assert (types.target, types.task, types.n_classes, types.n) == ("y", "classification", 2, 3)


@pytest.mark.parametrize(
    ("values", "task", "n_classes"),
    [
        (["0", "1", "0"], "classification", 2),
        ([str(i) for i in range(20)], "classification", 20),
        ([str(i) for i in range(21)], "regression", 0),
        (["0.5", "1", "2"], "regression", 0),
        (["1.0", "2.0"], "classification", 2),
        (["1", "?", "2", ""], "classification", 2),
        (["1", "x"], "classification", 2),
    ],
)
def test_task_follows_the_target(write, values, task, n_classes):
    types = DataFile(write("a,y\n" + "".join(f"1,{v}\n" for v in values))).types()
    assert (types.task, types.n_classes) == (task, n_classes)


def test_late_text_makes_a_column_nominal(write):
    rows = "".join(f"{i},UP\n" for i in range(3000)) + "x,UP\n"
    types = DataFile(write("a,y\n" + rows)).types(max_values=3001)
    assert types.features == {"a": "nominal"}
    assert types.n_values["a"] >= 3001


TIMES = "at,y\n2026-01-04,a\n2026-01-05T13:30:00+02:00,b\n ,a\n2026-01-05 23:59:59.5Z,b\n"


def test_times_are_no_feature(write):
    file = DataFile(write("at,v,y\n2026-01-04,1,a\n2026-01-05T13:30:00+02:00,2,b\n,3,b\n"))
    types = file.types()
    assert (types.features, types.times) == ({"v": "numeric"}, ("at",))
    assert file.types(nominal=["at"]).features == {"at": "nominal", "v": "numeric"}


@pytest.mark.parametrize(
    "values", [["2026-01-04", "x"], ["1", "2026-01-04"], ["2026-01-04", "1"], ["12:30", "12:31"], ["?", ""]]
)
@pytest.mark.parametrize("size", [1, 10])
def test_a_column_of_times_holds_nothing_else(cut, values, size):
    file = cut("at,y\n" + "".join(f"{value},{i}\n" for i, value in enumerate(values)), size)
    assert file.types(task="classification").times == ()


def test_hour_and_weekday_of_times(write):
    file = DatedFile(DataFile(write(TIMES)), ["at"])
    assert file.names == ("at", "at_hour", "at_weekday", "y")
    expected = [["0", "13", "", "23"], ["Sun", "Mon", "", "Mon"]]
    assert columns(file)[1:3] == expected
    assert columns(file, size=1)[1:3] == expected
    (block,) = file.blocks((3, 2), limit=2)
    assert block.columns == [["a", "b"], ["Sun", "Mon"]]
    assert file.types().features == {"at_hour": "numeric", "at_weekday": "nominal"}
    assert file.count(3) == 3
    epoch = DatedFile(DataFile(write("at,y\n0,a\n1767571200.5,b\n")), ["at"])
    assert columns(epoch)[1:3] == [["0", "0"], ["Thu", "Mon"]]


def test_errors_about_times(write):
    for name, message in (("at_hour", "--date-parts at makes it"), ("on_hour", "its columns are at, y")):
        with pytest.raises(DataError, match=f"no column '{name}' for a feature: {message}"):
            DatedFile(DataFile(write(TIMES)), []).position(name, "a feature")
    with pytest.raises(DataError, match="no column 'when' for --date-parts"):
        DatedFile(DataFile(write(TIMES)), ["when"])
    with pytest.raises(DataError, match="has a column 'at_hour' already"):
        DatedFile(DataFile(write("at,at_hour,y\n2026-01-04,1,a\n")), ["at"])
    for cell in ("noon", "1e99", "-inf"):
        file = DatedFile(DataFile(write(f"at,y\n2026-01-04,a\n{cell},b\n")), ["at"])
        with pytest.raises(DataError, match=f"line 3 of .* has '{cell}' in column 'at': expected a time"):
            columns(file)


def test_ids_are_refused_with_the_cure(write):
    path = write("id,v,y\n" + "".join(f"u{i},{i},{i % 2}\n" for i in range(1001)))
    file = DataFile(path)
    message = r"column 'id' of .* has 1,001 values, such as 'u0', and .* at most 1,000: leave .* by --ignore id, or "
    with pytest.raises(DataError, match=message + ".* --max-values 1001$"):
        file.types()
    assert file.types(ignore=["id"]).features == {"v": "numeric"}
    assert file.types(max_values=1001).n_values == {"id": 1001}
    assert file.types(limit=1000).naming == {"id": "u0"}
    assert file.types(limit=1000, nominal=["id"]).n_values == {"id": 1000}
    with pytest.raises(DataError, match=r"column 'v' of .* has 1,001 values, and a nominal feature has at most 1,000"):
        file.types(ignore=["id"], nominal=["v"])


@pytest.mark.parametrize("size", [100, 10_000])
def test_a_column_of_numbers_with_a_stray_text_is_named(cut, size):
    def types(n, **options):
        rows = "".join(f"{i},k{i % 3},{i % 2}\n" for i in range(n))
        return cut(f"age,c,y\n{rows}ERR,1,1\n", size).types(**options)

    found = types(300)
    assert (found.features["age"], found.stray) == ("nominal", {"age": "ERR"})
    (remark,) = found.remarks()
    assert remark.startswith("column 'age' is nominal, since 'ERR' in it is no number; write nothing where a number is")
    assert types(300, nominal=["age"]).remarks() == []
    message = (
        r"has .* values, of which 'ERR' is no number, .* at most 1,000: write nothing where a number is missing, or"
    )
    with pytest.raises(DataError, match=message):
        types(3000)


@pytest.mark.parametrize("text", ["NA", "nan", "NaN", "null", "None", "N/A", "<NA>", " NULL "])
@pytest.mark.parametrize("size", [1, 100])
def test_what_others_write_for_a_missing_number_is_one(cut, text, size):
    file = cut(f"a,at,c,y\n{text},{text},{text},1\n2.5,2026-11-21,DE,0\n" + f"3,{text},{text},1\n" * 3, size)
    found = file.types()
    assert found.features == {"a": "numeric", "c": "nominal"}
    assert (found.times, found.stray) == (("at",), {})
    assert found.n_values["c"] == 2  # among texts it is one of them: NA is Namibia
    block = next(DataFile(file.path).blocks([0, 2]))
    assert file.numbers(block, 0, "a").tolist()[1:3] == [2.5, 3.0]
    assert np.isnan(file.numbers(block, 0, "a")[0])
    assert file.values(block, 1, file.names[1])[0] == text.strip()


def test_labels_of_numbers_may_have_such_a_text_as_a_class(write):
    file = DataFile(write("a,y\n1,1\n2,NA\n3,0\n"))
    assert (file.types().task, file.types().n_classes) == ("classification", 3)
    column = file.look()[0]["y"]
    assert (column.values + column.instead, column.share("NA")) == (["1", "0", "NA"], 1 / 3)


@pytest.mark.parametrize("size", [1, 100])
def test_such_texts_are_values_once_another_text_comes(cut, size):
    column = cut("a,y\nNA,1\n2,0\nred,1\nNA,1\n", size).look()[0]["a"]
    assert (column.numeric, sorted(column.values), column.n) == (False, ["2", "NA", "red"], 4)
    assert column.share("NA") == 0.5


def test_what_is_too_many_is_said_of_all_columns_and_of_times_that_are_none(write):
    rows = "".join(f"{i % 28 + 1}/03/{1900 + i // 28} 00:00,u{i},{i % 2}\n" for i in range(1001))
    message = (
        r"column 'when' of .* has 1,001 values, such as '1/03/1900 00:00' \(as have 'id'\), .*: "
        r"write its times as 2026-11-21T12:00:00, or leave the column out"
    )
    with pytest.raises(DataError, match=message):
        DataFile(write("when,id,y\n" + rows)).types()


def test_ignored_columns_are_not_looked_at(write):
    file = DataFile(write("a,b,id\nx,1,u1\ny,2,u2\n"))
    types = file.types(ignore=["id"])
    assert (types.target, types.features) == ("b", {"a": "nominal"})


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("", {}, "is empty: expected a header with column names"),
        ("1,2,3\n4,5,6\n", {}, r"begins with numbers \(1, 2, 3, …\): expected a header"),
        ("a\n1\n", {}, "has one column, 'a': expected features and a target"),
        (
            "a|b|c\n1|2|3\n",
            {},
            r"has one column, 'a\|b\|c': .* by commas, semicolons or tabs",
        ),
        ("\n1,2\n", {}, "has a blank first line: expected features and a target"),
        ('{"a": 1, "b": 2}\n', {}, "holds JSON: expected CSV with a header"),
        ("a,,c\n1,2,3\n", {}, "column 2 of .* has no name"),
        ("a,b,a\n1,2,3\n", {}, "two columns called 'a': rename one"),
        ("a,b\n1,2\n3\n4,5\n", {}, "line 3 of .* has 1 cells, the header has 2: correct or remove the line"),
        ("a,b\n1,2\n3,4,5\n", {}, "line 3 of .* has 3 cells"),
        ("a,b\n", {}, "has a header and no rows"),
        ("a,b\n1,?\n2,\n", {}, "column 'b' of .* is empty: choose another target by --label"),
        (TIMES, {}, r"no feature left beside the target 'y'.*--date-parts"),
        (TIMES, {"target": "at"}, r"column 'at' of .* holds times: name the column to predict by --label"),
        (SMALL, {"ignore": ["z"]}, "no column 'z' for --ignore"),
        (SMALL, {"ignore": ["b"], "target": "b"}, r"column 'b' of .* would be the target and ignored"),
        (SMALL, {"ignore": ["a", "b"]}, "no feature left"),
        (SMALL, {"ignore": ["a", "b", "c"]}, "would be the target and ignored"),
        (SMALL, {"target": "z"}, "no column 'z' for the target: its columns are a, b, c"),
        (SMALL, {"nominal": ["z"]}, "no column 'z' for a nominal feature"),
        (
            SMALL,
            {"task": "regression"},
            r"column 'c' of .* is not numeric, as 'UP' shows: .*, or use --task classification",
        ),
    ],
)
def test_errors_say_what_to_mend(write, text, options, message):
    path = write(text)
    with pytest.raises(DataError, match=message) as caught:
        DataFile(path).types(**options)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("cell", ["abc", "inf", "1e999", "0x10"])
def test_what_is_no_number_is_named_with_its_line(write, cell):
    file = DataFile(write(f"a,y\n1,u\n\n{cell},v\n"))
    (block,) = file.blocks((0,))
    with pytest.raises(DataError, match=f"line 4 of .* has '{cell}' in column 'a': expected a finite number"):
        file.numbers(block, 0, "a")


def test_errors_about_the_file(tmp_path, write):
    with pytest.raises(DataError, match=r"there is no file .*absent.csv: check the path"):
        DataFile(tmp_path / "absent.csv")
    with pytest.raises(DataError, match="cannot be read"):
        DataFile(tmp_path)
    whole = gzip.compress(("a,b\n" + "1,2\n" * 5000).encode())
    for name, content, message in (
        ("latin.csv", b"a,b\n\xe9,1\n" * 5, "is not UTF-8 text"),
        ("half.csv.gz", whole[: len(whole) // 2], "is damaged"),
        ("rotten.csv.gz", whole[:40] + b"\xff" * 20 + whole[60:], "is damaged"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match=message):
            DataFile(tmp_path / name).types()
    with pytest.raises(DataError, match=r"column 'c' of .* would be the target and is a feature"):
        DataFile(write(SMALL)).target(None, ["a", "c"])
    cancelled = DataFile(write("a,churned,churned_at\n1,1,2026-03-04T02:12:07Z\n2,0,\n"))
    with pytest.raises(DataError, match=r"column 'churned_at' of .* holds times: name the column to predict by"):
        cancelled.target(None, ["a"])
    assert cancelled.target("churned_at", ["a"]) == ("churned_at", 2)
