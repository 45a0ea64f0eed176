"""A full disk, torn checkpoints, and a run that is finished."""

import resource

import pytest

from gtpo_lit.checkpoint_writing import CheckpointError


def test_a_finished_run_says_so(runs, capsys):
    runs()
    metrics = runs.metrics()
    with pytest.raises(SystemExit) as end:
        runs("--ckpt_path=last")
    assert end.value.code == 0
    said = capsys.readouterr().out
    assert "already finished: trainer.max_epochs = 2 and checkpoint" in said
    assert "step=0002.ckpt holds 2 RL steps; nothing is trained" in said
    assert not runs.version(1).exists()
    (runs.version(0) / "summary.json").unlink()
    runs("--ckpt_path=last")
    assert "only its summary is written" in capsys.readouterr().out
    assert (runs.version(0) / "summary.json").is_file()
    assert runs.metrics() == metrics
    folder = runs.version(0) / "checkpoints"
    (runs.version(0) / "summary.json").unlink()
    (folder / "step=0002.ckpt").write_bytes((folder / "step=0002.ckpt").read_bytes()[:-500])
    with pytest.warns(UserWarning, match=r"step=0002.ckpt is cut short.*passed over"):
        runs("--ckpt_path=last")
    assert runs.metrics() == metrics
    assert not runs.version(1).exists()


def test_a_full_disk_leaves_the_checkpoint_before(runs, monkeypatch):
    from gtpo_lit.checkpoint_io import StraightCheckpointIO

    plain = StraightCheckpointIO.save_checkpoint

    def save(self, checkpoint, path, storage_options=None):
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        small = 10_000 if "0002" in str(path) else limits[0]
        resource.setrlimit(resource.RLIMIT_FSIZE, (small, limits[1]))
        try:
            plain(self, checkpoint, path, storage_options)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    monkeypatch.setattr(StraightCheckpointIO, "save_checkpoint", save)
    with pytest.raises(CheckpointError, match=r"step=0002.*File too large.*last.*step=0001.ckpt"):
        runs("--trainer.max_epochs=3")
    names = [path.name for path in (runs.version(0) / "checkpoints").iterdir()]
    assert names == ["step=0001.ckpt"]
