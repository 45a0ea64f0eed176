"""Who may write into a run folder: versions, resumes in place, locks, and giving it back."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from gtpo_lit.metrics_csv import MetricsFile, read_metrics
from gtpo_lit.run_claim import abandon, claim
from gtpo_lit.run_folder import RunFolder


def begin(root: Path, *, rows: int = 3, checkpoints: tuple[int, ...] = (1, 2, 3)) -> RunFolder:
    """A run that stopped after `rows` RL steps."""
    folder = claim(root, "run")
    file, timing = MetricsFile(folder.metrics), MetricsFile(folder.timing)
    file.update(0, {"val": 0.5})
    for step in range(1, rows + 1):
        file.update(step, {"loss": 1.0 / step, **({"late": 1.0} if step == 3 else {})})
        timing.update(step, {"time/step": float(step)})
    folder.checkpoints.mkdir()
    for step in checkpoints:
        torch.save({"rl_step": step}, folder.checkpoint(step))
    return folder


def test_versions_count_up_and_fill_no_gap(tmp_path: Path) -> None:
    assert claim(tmp_path, "run").path == tmp_path / "run" / "version_0"
    (tmp_path / "run" / "version_5").mkdir()
    (tmp_path / "run" / "notes").mkdir()
    assert claim(tmp_path, "run").path.name == "version_6"
    assert claim(tmp_path, "other").path.name == "version_0"
    assert claim(tmp_path, "run", version=2).path.name == "version_2"


def test_an_existing_version_is_refused(tmp_path: Path) -> None:
    claim(tmp_path, "run", version=2)
    with pytest.raises(ValueError, match="version=2: .*already exists"):
        claim(tmp_path, "run", version=2)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/a"])
def test_a_name_is_one_component(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="is not the name of a folder"):
        claim(tmp_path, name)


def test_a_root_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("")
    with pytest.raises(ValueError, match="runs' is not a folder"):
        claim(tmp_path / "runs", "run")


def test_a_missing_checkpoint_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="ckpt_path='nowhere.ckpt' does not exist"):
        claim(tmp_path / "runs", "run", "nowhere.ckpt")
    assert not (tmp_path / "runs").exists()


def test_the_newest_checkpoint_goes_on_in_place_and_cuts_back(tmp_path: Path) -> None:
    old = begin(tmp_path, checkpoints=(1, 2))
    resumed = claim(tmp_path, "run", old.checkpoint(2))
    assert (resumed.path, resumed.start_step, resumed.in_place) == (old.path, 2, True)
    # `late` had values in row 3 only, and an uninterrupted run would not know it yet.
    assert resumed.metrics.read_text() == "step,loss,val\n0,,0.5\n1,1.0,\n2,0.5,\n"
    assert read_metrics(resumed.timing)["step"] == [1, 2]


def test_an_older_checkpoint_begins_a_new_version_with_the_rows_so_far(tmp_path: Path) -> None:
    old = begin(tmp_path)
    before = old.metrics.read_bytes()
    new = claim(tmp_path, "run", old.checkpoint(1))
    assert (new.path.name, new.start_step, new.in_place) == ("version_1", 1, False)
    assert new.metrics.read_text() == "step,loss,val\n0,,0.5\n1,1.0,\n"
    assert not new.timing.exists()
    assert old.metrics.read_bytes() == before
    assert len(read_metrics(old.timing)["step"]) == 3


def test_a_finished_run_is_left_alone(tmp_path: Path) -> None:
    old = begin(tmp_path)
    old.write_summary({"finished": True})
    new = claim(tmp_path, "run", old.checkpoint(3))
    assert new.path.name == "version_1"
    assert read_metrics(new.path)["step"] == [0, 1, 2, 3]


@pytest.mark.parametrize("summary", ['{"finished": false}', '{"fin', "[]"])
def test_an_unfinished_or_torn_summary_lets_the_run_go_on(tmp_path: Path, summary: str) -> None:
    old = begin(tmp_path)
    old.summary.write_text(summary)
    assert claim(tmp_path, "run", old.checkpoint(3)).path == old.path


def test_a_checkpoint_outside_a_run_begins_without_rows(tmp_path: Path) -> None:
    torch.save({"rl_step": 7, "epoch": 3}, tmp_path / "foreign.ckpt")
    new = claim(tmp_path / "runs", "run", tmp_path / "foreign.ckpt")
    assert (new.start_step, new.in_place, new.metrics.exists()) == (7, False, False)


def test_a_link_to_the_newest_checkpoint_is_the_newest(tmp_path: Path) -> None:
    old = begin(tmp_path)
    (old.checkpoints / "last.ckpt").symlink_to("step=0003.ckpt")
    assert claim(tmp_path, "run", old.checkpoints / "last.ckpt").in_place


def test_processes_that_start_at_once_get_different_versions(tmp_path: Path) -> None:
    code = (
        "import sys; from gtpo_lit.run_claim import claim; sys.stdin.readline();"
        "print(claim(sys.argv[1], 'run').path.name)"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    workers = [subprocess.Popen(command, **pipes) for _ in range(4)]
    for worker in workers:
        worker.stdin.write("\n")
        worker.stdin.flush()
    names = [worker.communicate()[0].strip() for worker in workers]
    assert sorted(names) == ["version_0", "version_1", "version_2", "version_3"]


def test_a_run_that_another_process_still_writes_is_not_taken_over(tmp_path: Path) -> None:
    code = (
        "import sys; from gtpo_lit.run_claim import claim;"
        "print(claim(sys.argv[1], 'run', sys.argv[2]).in_place, flush=True); sys.stdin.readline()"
    )
    old = begin(tmp_path)
    command = [sys.executable, "-c", code, str(tmp_path), str(old.checkpoint(3))]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    # This process began the run, and so still holds it.
    first = subprocess.Popen(command, **pipes)
    assert first.communicate("\n")[0].strip() == "False"

    begun = subprocess.run(
        [sys.executable, "-c", "import sys, torch; from gtpo_lit.run_claim import claim\n"
         "folder = claim(sys.argv[1], 'dead'); folder.metrics.write_text('step,a\\n1,2.0\\n')\n"
         "folder.checkpoints.mkdir(); torch.save({}, folder.checkpoint(1))\n"
         "import os, signal; os.kill(os.getpid(), signal.SIGKILL)", str(tmp_path)],
        check=False,
    )  # fmt: skip
    assert begun.returncode == -9
    dead = RunFolder(path=tmp_path / "dead" / "version_0")
    command[-1] = str(dead.checkpoint(1))
    holder = subprocess.Popen(command, **pipes)
    assert holder.stdout.readline().strip() == "True"
    late = subprocess.run(command, input="\n", capture_output=True, text=True, check=True)
    assert late.stdout.strip() == "False"
    holder.communicate("\n")
    again = subprocess.run(command, input="\n", capture_output=True, text=True, check=True)
    assert again.stdout.strip() == "True"


@pytest.mark.parametrize("version", [None, 0])
def test_the_version_that_the_checkpoint_lies_in_goes_on(tmp_path: Path, version) -> None:
    old = begin(tmp_path)
    assert claim(tmp_path, "run", old.checkpoint(3), version=version).in_place
    assert claim(tmp_path, "run", old.checkpoint(3), version=4).path.name == "version_4"


def test_a_run_of_another_name_gets_a_folder_of_its_own_for_older_checkpoints(
    tmp_path: Path,
) -> None:
    old = begin(tmp_path)
    new = claim(tmp_path / "elsewhere", "next", old.checkpoint(2))
    assert new.path == tmp_path / "elsewhere" / "next" / "version_0"
    assert new.start_step == 2
    assert read_metrics(new.path)["step"] == [0, 1, 2]


def test_a_torn_newest_checkpoint_lets_the_one_before_go_on_in_place(tmp_path: Path) -> None:
    old = begin(tmp_path)
    old.checkpoint(3).write_bytes(b"")
    with pytest.warns(UserWarning, match=r"step=0003.ckpt is empty"):
        resumed = claim(tmp_path, "run", old.checkpoint(2))
    assert (resumed.path, resumed.in_place) == (old.path, True)
    assert read_metrics(resumed.path)["step"] == [0, 1, 2]


def test_an_unused_folder_is_given_back_with_what_was_made_for_it(tmp_path: Path) -> None:
    folder = claim(tmp_path / "runs", "run")
    (folder.path / "tensorboard").mkdir()
    (folder.path / "tensorboard" / "events").write_text("x")
    abandon(folder)
    assert list(tmp_path.iterdir()) == []
    assert claim(tmp_path / "runs", "run").path.name == "version_0"


def test_other_versions_and_runs_stay(tmp_path: Path) -> None:
    kept, folder = claim(tmp_path, "run"), claim(tmp_path, "run")
    abandon(folder)
    assert [entry.name for entry in (tmp_path / "run").iterdir()] == ["version_0"]
    (tmp_path / "other").mkdir()
    (kept.path / ".lock").unlink()
    abandon(kept)
    assert [entry.name for entry in tmp_path.iterdir()] == ["other"]


@pytest.mark.parametrize("name", ["config.yaml", "metrics.csv", "notes"])
def test_a_folder_with_anything_in_it_is_not_given_back(tmp_path: Path, name: str) -> None:
    folder = claim(tmp_path, "run")
    (folder.path / name).write_text("x")
    abandon(folder)
    assert sorted(entry.name for entry in folder.path.iterdir()) == sorted([".lock", name])


def test_a_folder_that_goes_on_is_never_given_back(tmp_path: Path) -> None:
    old = RunFolder(path=tmp_path / "run" / "version_0", start_step=1, in_place=True)
    old.path.mkdir(parents=True)
    abandon(old)
    assert old.path.is_dir()


def test_a_root_that_is_a_link_or_the_working_folder_stays(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "runs").symlink_to("disk")
    abandon(claim(tmp_path / "runs", "run"))
    assert list((tmp_path / "runs").iterdir()) == []
    monkeypatch.chdir(tmp_path / "disk")
    abandon(claim(".", "run"))
    assert list((tmp_path / "disk").iterdir()) == []
