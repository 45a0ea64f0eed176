from __future__ import annotations

from pathlib import Path

from gtpo_lit.loggers.follower import Follower, numbers
from gtpo_lit.run_logger import RunLogger


def test_rows_are_the_run_loggers(tmp_path: Path) -> None:
    one = Follower()
    assert one.row_of({"epoch": 4}) == 5
    run_logger = RunLogger(str(tmp_path))
    one.follow(run_logger)
    run_logger.rl_step = 9
    assert (one.row_of({"epoch": 4}), one.row_of({})) == (5, 9)
    run_logger.pinned_step = 2
    assert one.row_of({"epoch": 4}) == 2


def test_an_id_is_remembered_in_the_folder(tmp_path: Path) -> None:
    one = Follower()
    one.remember("wandb", "lost")
    assert one.remembered("wandb") is None
    one.follow(RunLogger(str(tmp_path)))
    assert one.remembered("wandb") is None
    one.remember("wandb", "abc")
    assert (one.remembered("wandb"), one.remembered("mlflow")) == ("abc", None)
    assert (tmp_path / "run" / "version_0" / "wandb.id").read_text() == "abc\n"


def test_lightnings_counters_are_no_metrics() -> None:
    assert numbers({"epoch": 1, "step": 2, "a": 1, "trainer/global_step": 3}) == {"a": 1.0}
