"""Which checkpoint a run goes on from, what is said about it, and when there is nothing to do."""

import pytest
import torch

from gtpo_lit.resume import find_checkpoint, say_if_finished
from gtpo_lit.run_folder import RunFolder


def make_run(root, version=0, steps=(1, 2)) -> RunFolder:
    folder = RunFolder(path=root / "run" / f"version_{version}")
    folder.checkpoints.mkdir(parents=True)
    for step in steps:
        torch.save({"rl_step": step}, folder.checkpoint(step))
    return folder


def find(path, root, command="fit"):
    return find_checkpoint(path, str(root), "run", command=command)


def test_last_is_the_newest_of_the_newest_version_that_has_one(tmp_path, capsys):
    make_run(tmp_path, version=2, steps=(7,))
    newest = make_run(tmp_path, version=10, steps=(9, 10, 8))
    make_run(tmp_path, version=11, steps=())
    for command in ("fit", "validate"):
        assert find("last", tmp_path, command) == str(newest.checkpoint(10))
    assert capsys.readouterr().out == ""


def test_last_skips_a_torn_one_with_a_warning(tmp_path):
    folder = make_run(tmp_path, steps=(1, 2, 3))
    folder.checkpoint(3).write_bytes(folder.checkpoint(3).read_bytes()[:-100])
    with pytest.warns(UserWarning, match=r"step=0003.ckpt is cut short.*: it is passed over"):
        assert find("last", tmp_path) == str(folder.checkpoint(2))


def test_last_goes_back_to_an_older_version_if_all_of_the_newest_are_torn(tmp_path):
    old = make_run(tmp_path, version=0, steps=(4,))
    make_run(tmp_path, version=1, steps=(1,)).checkpoint(1).write_bytes(b"")
    with pytest.warns(UserWarning, match=r"version_1.*step=0001.ckpt is empty"):
        assert find("last", tmp_path) == str(old.checkpoint(4))


@pytest.mark.parametrize("made", [False, True])
def test_a_first_start_says_so(tmp_path, capsys, made):
    if made:
        make_run(tmp_path, steps=())
    assert find("last", tmp_path) is None
    assert capsys.readouterr().out == (
        f"gtpo-lit: no checkpoint under {tmp_path}/run yet: fit starts from the initial policy\n"
    )


@pytest.mark.parametrize("command", ["validate", "test"])
def test_last_without_any_is_an_error_but_for_fit(tmp_path, command):
    message = (
        rf"ckpt_path = 'last': no checkpoint under {tmp_path}/run \(run.root and run.name say "
        rf"where; without ckpt_path {command} takes the policy as it is\)"
    )
    with pytest.raises(ValueError, match=message):
        find("last", tmp_path, command)


@pytest.mark.parametrize("path", [None, "s3://bucket/step=0003.ckpt", "hf://who/what.ckpt"])
def test_none_and_addresses_are_left_as_they_are(tmp_path, path):
    assert find(path, tmp_path) == path


def test_a_path_is_taken_as_it_is_written(tmp_path, monkeypatch):
    folder = make_run(tmp_path)
    (folder.checkpoints / "best.ckpt").symlink_to("step=0001.ckpt")
    monkeypatch.chdir(folder.path)
    assert find("checkpoints/best.ckpt", tmp_path) == "checkpoints/best.ckpt"


def test_a_path_that_is_not_there_is_named(tmp_path):
    message = (
        r"ckpt_path = 'nowhere.ckpt': no such checkpoint \(give a path, or 'last' for the newest "
        rf"of {tmp_path}/run\)"
    )
    with pytest.raises(ValueError, match=message):
        find("nowhere.ckpt", tmp_path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"", "is empty"), (b"not a checkpoint", "is cut short, or no checkpoint")],
)
def test_a_torn_one_that_is_asked_for_is_refused(tmp_path, content, reason):
    path = make_run(tmp_path).checkpoint(2)
    path.write_bytes(content)
    message = rf"step=0002.ckpt' {reason} \(give another one, or 'last' for the newest whole one"
    with pytest.raises(ValueError, match=message):
        find(str(path), tmp_path)


def test_a_folder_that_is_no_checkpoint_is_refused(tmp_path):
    folder = make_run(tmp_path)
    with pytest.raises(ValueError, match=r"version_0' lacks meta.pt"):
        find(str(folder.path), tmp_path)


@pytest.mark.parametrize(("step", "shown"), [(1, "1 RL step;"), (3, "3 RL steps;")])
def test_a_finished_run_ends_with_code_0(tmp_path, capsys, step, shown):
    folder = make_run(tmp_path, steps=(step,))
    folder.metrics.write_text("step,a\n1,2.0\n")
    folder.write_summary({"finished": True})
    with pytest.raises(SystemExit) as end:
        say_if_finished(str(folder.checkpoint(step)), step)
    assert end.value.code == 0
    assert capsys.readouterr().out == (
        f"gtpo-lit: already finished: trainer.max_epochs = {step} and checkpoint "
        f"{folder.checkpoint(step)} holds {shown} nothing is trained "
        "(raise trainer.max_epochs to train on)\n"
    )


def test_more_steps_than_are_asked_for_are_finished_too(tmp_path, capsys):
    path = make_run(tmp_path, steps=(5,)).checkpoint(5)
    with pytest.raises(SystemExit) as end:
        say_if_finished(str(path), 3)
    assert end.value.code == 0
    assert "trainer.max_epochs = 3 and checkpoint" in capsys.readouterr().out


def test_a_run_that_lacks_its_summary_goes_on_to_write_it(tmp_path, capsys):
    folder = make_run(tmp_path)
    folder.metrics.write_text("step,a\n1,2.0\n")
    say_if_finished(str(folder.checkpoint(2)), 2)
    said = capsys.readouterr().out
    assert f"{folder.checkpoint(2)} holds 2 RL steps; only its summary is written" in said


@pytest.mark.parametrize(("path", "steps"), [("checkpoint", 3), ("s3://bucket/step=0009.ckpt", 2)])
def test_nothing_is_said_while_steps_are_left(tmp_path, capsys, path, steps):
    folder = make_run(tmp_path)
    say_if_finished(str(folder.checkpoint(2)) if path == "checkpoint" else path, steps)
    assert capsys.readouterr().out == ""


def test_steps_are_read_from_the_file_under_another_name(tmp_path):
    torch.save({"epoch": 3}, tmp_path / "foreign.ckpt")
    say_if_finished(str(tmp_path / "foreign.ckpt"), 5)
    with pytest.raises(SystemExit):
        say_if_finished(str(tmp_path / "foreign.ckpt"), 4)
