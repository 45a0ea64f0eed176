"""What a run folder tells of its checkpoints and its summary."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from gtpo_lit.run_claim import claim
from gtpo_lit.run_folder import checkpoint_step


def test_a_half_written_checkpoint_does_not_count(tmp_path: Path) -> None:
    old = claim(tmp_path, "run")
    old.checkpoints.mkdir()
    torch.save({"rl_step": 2}, old.checkpoint(2))
    (old.checkpoints / "step=0003.ckpt.partial").write_text("")
    assert old.newest_checkpoint() == old.checkpoint(2)


def test_checkpoint_step_comes_from_the_name_or_the_file(tmp_path: Path) -> None:
    (tmp_path / "step=0012.ckpt").write_text("")
    torch.save({"epoch": 3}, tmp_path / "epoch=3.ckpt")
    torch.save({"rl_step": 9, "epoch": 3}, tmp_path / "best.ckpt")
    (tmp_path / "step=0004").mkdir()
    torch.save({"rl_step": 4}, tmp_path / "step=0004" / "meta.pt")
    torch.save({"weights": 1}, tmp_path / "other.ckpt")
    names = ["step=0012.ckpt", "epoch=3.ckpt", "best.ckpt", "step=0004"]
    assert [checkpoint_step(tmp_path / name) for name in names] == [12, 4, 9, 4]
    with pytest.raises(ValueError, match="holds neither"):
        checkpoint_step(tmp_path / "other.ckpt")


def test_summary_round_trip(tmp_path: Path) -> None:
    folder = claim(tmp_path, "run")
    assert folder.read_summary() == {}
    assert not folder.finished
    folder.write_summary({"finished": True, "after": {"val/a/pass@1": 0.5}})
    assert folder.finished
    assert folder.read_summary()["after"] == {"val/a/pass@1": 0.5}
