"""The strict parser by itself, without a command line around it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from jsonargparse import ArgumentParser

from gtpo_lit.strict_parser import StrictParser

HERE = __name__


@dataclass(frozen=True, kw_only=True)
class Window:
    """A field that is a dataclass.

    Args:
        length: how long it is.
    """

    length: int = 3


class Base:
    """A class with subclasses."""


class One(Base):
    def __init__(self, size: int = 1, window: Window | None = None, **others: float) -> None:
        self.size, self.window, self.others = size, window, others


class Two(Base):
    def __init__(self, size: int = 2, parts: list[Base] | None = None) -> None:
        self.size, self.parts = size, parts


class Model(Base):
    def __init__(self, rows: int = 4) -> None:
        self.rows = rows


class Data(Base):
    def __init__(self, batch_size: int = 4) -> None:
        self.batch_size = batch_size


@pytest.fixture
def parser() -> StrictParser:
    made = StrictParser()
    made.add_argument("--config", action="config")
    made.add_argument("--part", type=Base)
    made.add_argument("--parts", type=list[Base])
    made.add_argument("--window", type=Window, default=Window())
    return made


def one_line(capsys: pytest.CaptureFixture[str], parser: Any, *args: str) -> str:
    with pytest.raises(SystemExit) as stop:
        parser.parse_args([*args])
    assert stop.value.code == 2
    line = capsys.readouterr().err
    assert line.startswith("gtpo-lit: error: ")
    assert line.count("\n") == 1
    return line


def test_prefixes_are_refused_at_every_depth(parser, capsys):
    one = f"--part={HERE}.One"
    assert parser.parse_args([one, "--part.window.length=5"]).part.init_args.window.length == 5
    for option in ("--part.window.len=5", "--part.win.length=5", "--window.len=5"):
        name = option.removeprefix("--part.").removeprefix("--").split("=")[0]
        assert name.split(".")[-1] in one_line(capsys, parser, one, option)


def test_former_class_leaves_nothing(parser):
    parsed = parser.parse_args([f"--part={HERE}.One", "--part.size=7", f"--part={HERE}.Two"])
    assert parsed.part.init_args.as_dict() == {"size": 2, "parts": None}
    parsed = parser.parse_args(
        [f"--part={HERE}.One", "--part.dict_kwargs.extra=0.5", f"--part={HERE}.Model"]
    )
    assert parsed.part.as_dict() == {"class_path": f"{HERE}.Model", "init_args": {"rows": 4}}


def test_lists_are_replaced_at_every_depth(parser):
    long = f"[{{class_path: {HERE}.One, init_args: {{size: 9}}}}]"
    plain = f"[{{class_path: {HERE}.One}}]"
    parsed = parser.parse_args([f"--parts={long}", f"--parts={plain}"])
    assert [part.init_args.size for part in parsed.parts] == [1]
    two = f"--part={HERE}.Two"
    parsed = parser.parse_args([two, f"--part.parts={long}", f"--part.parts={plain}"])
    assert [part.init_args.size for part in parsed.part.init_args.parts] == [1]
    parsed = parser.parse_args([two, f"--part.parts={long}", "--part.parts.size=6"])
    assert [part.init_args.size for part in parsed.part.init_args.parts] == [6]
    parsed = parser.parse_args([f"--parts={long}", f"--parts+={HERE}.Two", "--parts.size=8"])
    assert [part.init_args.size for part in parsed.parts] == [9, 8]


def test_other_parsers_keep_their_own_rules():
    plain = ArgumentParser(exit_on_error=False)
    plain.add_argument("--part", type=Base)
    parsed = plain.parse_args([f"--part={HERE}.One", "--part.size=7", f"--part={HERE}.Two"])
    assert parsed.part.init_args.size == 7


def linked(*, subclasses: bool) -> StrictParser:
    made = StrictParser()
    made.add_argument("--config", action="config")
    if subclasses:
        made.add_subclass_arguments(Base, "model")
        made.add_subclass_arguments(Base, "data")
        made.link_arguments("data.init_args.batch_size", "model.init_args.rows")
        made.set_defaults({"model": {"class_path": f"{HERE}.Model"}})
        made.set_defaults({"data": {"class_path": f"{HERE}.Data"}})
    else:
        made.add_class_arguments(Model, "model")
        made.add_class_arguments(Data, "data")
        made.link_arguments("data.batch_size", "model.rows")
    return made


@pytest.mark.parametrize("subclasses", [False, True])
def test_links_reach_fixed_classes_and_chosen_ones(subclasses, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    parser = linked(subclasses=subclasses)
    inside = "init_args." if subclasses else ""
    built = parser.instantiate(parser.parse_args([f"--data.{inside}batch_size=7"]))
    assert (built.data.batch_size, built.model.rows) == (7, 7)

    text = "model: {init_args: {rows: %d}}" if subclasses else "model: {rows: %d}"
    source = f"data.{inside}batch_size"
    Path("given.yaml").write_text(text % 5)
    line = one_line(capsys, parser, "--config=given.yaml")
    assert f"model.{inside}rows = 5 must be given as {source}, which decides it (now 4)" in line
    line = one_line(capsys, parser, "--config=given.yaml", f"--{source}=6")
    assert f"must be given as {source}, which decides it (now 6)" in line
    assert parser.parse_args(["--config=given.yaml", f"--{source}=5"])[f"model.{inside}rows"] == 5
    assert source in one_line(capsys, parser, f"--model.{inside}rows=5")

    Path("saved.yaml").write_text(parser.dump(parser.parse_args([f"--{source}=7"])))
    again = parser.instantiate(parser.parse_args(["--config=saved.yaml"]))
    assert (again.data.batch_size, again.model.rows) == (7, 7)


def test_computed_links_are_refused_too(capsys):
    parser = StrictParser()
    parser.add_argument("--config", action="config")
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--second", type=int, default=2)
    parser.add_argument("--total", type=int)
    parser.link_arguments(("first", "second"), "total", compute_fn=lambda a, b: a + b)
    assert parser.parse_args(["--config={total: 3}"]).total == 3
    line = one_line(capsys, parser, "--config={total: 4}")
    assert "total = 4 must be given as first, second, which decides it (now 3)" in line


def test_the_arguments_of_a_dataclass_have_help(parser, capsys):
    parser.print_help()
    assert "how long it is." in capsys.readouterr().out


def test_traceback_can_be_asked_for(parser, monkeypatch):
    monkeypatch.setenv("GTPO_LIT_TRACEBACK", "1")
    with pytest.raises(Exception, match="unrecognized arguments: --nothing"):
        parser.parse_args(["--nothing"])
