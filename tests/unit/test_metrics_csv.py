from __future__ import annotations

import math
from pathlib import Path

import pytest

from gtpo_lit.metrics_csv import MetricsFile, read_metrics, read_rows


def test_rows_are_written_at_once_and_read_back(tmp_path: Path) -> None:
    file = MetricsFile(tmp_path / "metrics.csv")
    file.update(0, {"val/a": 0.1})
    assert (tmp_path / "metrics.csv").read_text() == "step,val/a\n0,0.1\n"
    file.update(1, {"train/b": 1 / 3, "n": 3})
    file.update(2, {"train/b": 1e-300, "n": 4})
    assert (tmp_path / "metrics.csv").read_text() == (
        "step,n,train/b,val/a\n0,,,0.1\n1,3,0.3333333333333333,\n2,4,1e-300,\n"
    )
    table = read_metrics(tmp_path)
    assert list(table) == ["step", "n", "train/b", "val/a"]
    assert table["step"] == [0, 1, 2]
    assert table["train/b"][1:] == [1 / 3, 1e-300]
    assert math.isnan(table["val/a"][1])


def test_bytes_do_not_depend_on_the_order_of_calls(tmp_path: Path) -> None:
    values = {1: {"b": 0.5, "a": 2.0}, 2: {"c": 0.25, "a": 3.0}}
    together = MetricsFile(tmp_path / "one.csv")
    for step, row in values.items():
        together.update(step, row)
    single = MetricsFile(tmp_path / "two.csv")
    for step in (2, 1):
        for name in reversed(values[step]):
            single.update(step, {name: values[step][name]})
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "two.csv").read_bytes()


def test_repeating_a_call_does_not_touch_the_file(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    file = MetricsFile(path)
    file.update(1, {"a": 1.0, "b": 2.0})
    before = path.stat()
    file.update(1, {"b": 2.0})
    file.update(1, {})
    after = path.stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    file.update(1, {"b": 3.0})
    assert read_metrics(path)["b"] == [3.0]


def test_a_torn_last_line_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    path.write_text("step,a,b\n1,0.5,0.25\n2,0.5,0.2")
    with pytest.warns(UserWarning, match="last line was cut short"):
        assert read_metrics(path)["step"] == [1]
    with pytest.warns(UserWarning, match="last line was cut short"):
        file = MetricsFile(path)
    file.update(2, {"a": 1.0, "b": 2.0})
    assert path.read_text() == "step,a,b\n1,0.5,0.25\n2,1.0,2.0\n"


def test_names_with_commas_and_quotes_survive(tmp_path: Path) -> None:
    file = MetricsFile(tmp_path / "m.csv")
    file.update(1, {'x,"y"': 1.5})
    assert read_rows(tmp_path / "m.csv") == {1: {'x,"y"': "1.5"}}


def test_nan_and_infinity_stay_visible(tmp_path: Path) -> None:
    file = MetricsFile(tmp_path / "m.csv")
    file.update(1, {"a": math.nan, "b": math.inf})
    assert (tmp_path / "m.csv").read_text() == "step,a,b\n1,nan,inf\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "no complete row"),
        ("step,a\n", "no complete row"),
        ("epoch,a\n1,2\n", "first column is .'epoch'."),
        ("step,a\n1,2,3\n", "line 2: 3 cells for 2 columns"),
        ("step,a\nx,2\n", "line 2: .*'x'"),
        ("step,a\n1,zero\n", "'zero' in column 'a' is not a number"),
    ],
)
def test_broken_files_are_named(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "metrics.csv").write_text(content)
    with pytest.raises(ValueError, match=message):
        read_metrics(tmp_path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="is not a run folder"):
        read_metrics(tmp_path)
