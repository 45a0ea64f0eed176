"""Which steps are recorded, by whom, and what a resume leaves."""

import runpy
from pathlib import Path

import pytest
import torch

from callbacks import RolloutRecorder
from callbacks.rollout_recorder import recorded_steps
from gtpo_lit.algorithms import GTPO
from gtpo_lit.recorded import read_rollouts
from gtpo_lit.run_folder import RunFolder
from gtpo_lit.types import Completion, Graded, Problem

small = runpy.run_path(str(Path(__file__).parents[1] / "small_run.py"))


class Tokenizer:
    def decode(self, ids, *, skip_special_tokens, clean_up_tokenization_spaces):
        assert (skip_special_tokens, clean_up_tokenization_spaces) == (False, False)
        return "".join("abcdefgh"[number] for number in ids)


class Module(small["SmallModule"]):
    def __init__(self):
        super().__init__()
        self.policy = torch.nn.Module()
        self.policy.tokenizer = Tokenizer()
        self.algorithm = GTPO()


class Data(small["SmallData"]):
    @property
    def rollouts(self):
        return self._rollouts

    @rollouts.setter
    def rollouts(self, value):
        if value is not None:
            prompt = torch.ones(4, 1)
            value = value.replace(
                input_ids=torch.cat([prompt, 2 * value.mask], dim=1).long(),
                attention_mask=torch.cat([prompt.bool(), value.mask], dim=1),
            )
            value = value.replace(advantages=GTPO().advantages(value))
        self._rollouts = value
        done = Completion(token_ids=(2,), text="c", finish_reason="stop")
        problem = Problem(id="a/0", question="?", answer="4")
        self.graded = [
            Graded(
                problem=problem, completions=(done,) * 4, reward=(0.0,) * 4, correct=(False,) * 4
            )
        ]


def run(root, **options):
    trainer = small["make_trainer"](root, **options)
    trainer.fit(Module(), datamodule=Data(), ckpt_path=options.get("ckpt_path"))
    return trainer


def steps_in(folder):
    return [step for _, step in recorded_steps(RunFolder(path=Path(folder)))]


def test_every_nth_step_is_recorded_as_it_was(tmp_path):
    trainer = run(tmp_path, steps=5, extra=(RolloutRecorder(every_n_steps=2),))
    folder = Path(trainer.log_dir)
    assert steps_in(folder) == [2, 4]
    names = sorted(entry.name for entry in (folder / "rollouts").iterdir())
    assert names == ["step_000002.parquet", "step_000004.parquet"]
    first, second = (read_rollouts(folder / "rollouts" / name) for name in names)
    assert (first.step, second.step) == (2, 4)
    assert first.sequences[1].pieces == ("c", "c", "c")
    assert [row.sample for row in first.sequences] == [0, 1, 2, 3]
    assert first.sequences[0].prompt == "b"
    # In step k the made entropies are raised by k - 1.
    gap = second.rollouts.entropy - first.rollouts.entropy
    assert torch.allclose(gap[0, 0], torch.tensor(2.0))
    assert first.settings["alpha2"] == 0.1


def test_a_resume_drops_what_lies_after_its_checkpoint(tmp_path):
    recorder = (RolloutRecorder(every_n_steps=1),)
    trainer = run(tmp_path, steps=4, every_n_epochs=2, extra=recorder)
    folder = Path(trainer.log_dir)
    (folder / "summary.json").unlink()
    (folder / "checkpoints" / "step=0004.ckpt").unlink()
    (folder / "rollouts" / "step_000009.parquet").write_bytes(b"of a step after the checkpoint")
    (folder / "rollouts" / "notes.txt").write_text("mine")
    before = (folder / "rollouts" / "step_000002.parquet").stat().st_mtime_ns
    checkpoint = folder / "checkpoints" / "step=0002.ckpt"
    again = run(tmp_path, steps=3, ckpt_path=checkpoint, extra=(RolloutRecorder(1),))
    assert Path(again.log_dir) == folder
    assert steps_in(folder) == [1, 2, 3]
    assert (folder / "rollouts" / "notes.txt").exists()
    assert (folder / "rollouts" / "step_000002.parquet").stat().st_mtime_ns == before


def test_without_a_run_folder_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(tmp_path, steps=1, logger=False, callbacks=[RolloutRecorder(1)])
    assert list(tmp_path.rglob("*.parquet")) == []


def test_slips_name_the_option(tmp_path):
    with pytest.raises(ValueError, match="every_n_steps must be at least 1, got 0"):
        RolloutRecorder(every_n_steps=0)
    trainer = small["make_trainer"](tmp_path, extra=(RolloutRecorder(1),))
    with pytest.raises(ValueError, match=r"reads trainer.datamodule.graded, which is NoneType"):
        trainer.fit(Module(), datamodule=small["SmallData"]())
