"""Broken shaping stops a real run, on every rank, and nothing else does."""

import pytest
import yaml

from callbacks import ShapingError

BROKEN = '''
import torch

from gtpo_lit.algorithms import GRPOS, GTPO, Algorithm
from gtpo_lit.functional.advantages import normalize_sequences


class Leaky(GTPO):
    """Loses one percent of its rewards from the second RL step on."""

    steps = 0

    def advantages(self, rollouts):
        self.steps += 1
        return super().advantages(rollouts)

    def shaped(self, rollouts):
        return super().shaped(rollouts) * (0.99 if self.steps > 1 else 1.0)


class LeakyS(GRPOS):
    """Loses one percent of its rewards."""

    def shaped(self, rollouts):
        return super().shaped(rollouts) * 0.99


class Idle(GTPO):
    """Conserves its mass, and throws it away."""

    def advantages(self, rollouts):
        return normalize_sequences(rollouts.reward, rollouts.group)


class Blind(GTPO):
    """Its entropies got lost on the way."""

    def shaped(self, rollouts):
        return super().shaped(rollouts.replace(entropy=torch.zeros_like(rollouts.entropy)))


class Plain(Algorithm):
    """Somebody's own algorithm, without entropy and without numbers about it."""

    def advantages(self, rollouts):
        return rollouts.correct.float()

    def diagnostics(self, rollouts):
        return {}
'''

GAP = "train/shaping/conservation_gap"
TWO = ("--config=configs/strategy/ddp.yaml",)


@pytest.fixture
def broken(tmp_path, monkeypatch):
    (tmp_path / "broken.py").write_text(BROKEN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


def checkpoints(runs, number=0):
    return sorted(path.name for path in (runs.version(number) / "checkpoints").iterdir())


def set_patience(runs, steps):
    config = yaml.safe_load(runs.config.read_text())
    (guard,) = (
        callback
        for callback in config["trainer"]["callbacks"]
        if callback["class_path"] == "callbacks.ShapingGuard"
    )
    guard["init_args"] = {"patience": steps}
    runs.config.write_text(yaml.safe_dump(config))


@pytest.mark.usefixtures("broken")
def test_leaking_mass_stops_the_run_before_its_step_and_keeps_the_last_checkpoint(runs):
    with pytest.raises(ShapingError) as stopped:
        runs("--model.algorithm=broken.Leaky", "--trainer.max_epochs=4")
    message = str(stopped.value)
    assert f"in RL step 2, {GAP} is 0.01, not within the tolerance 0.0001" in message
    assert f"last checkpoint: {runs.version()}/checkpoints/step=0001.ckpt" in message
    assert [row["step"] for row in runs.rows()] == ["0", "1"]
    assert float(runs.rows()[1][GAP]) < 1e-5
    assert checkpoints(runs) == ["step=0001.ckpt"]


@pytest.mark.usefixtures("broken")
def test_the_command_ends_with_an_exit_code_and_the_message_for_sequence_rewards_too(runs):
    done = runs.apart("--model.algorithm=broken.LeakyS")
    assert done.returncode == 1
    last = done.stderr.rstrip().splitlines()[-1]
    assert last.startswith(
        f"callbacks.shaping_guard.ShapingError: in RL step 1, {GAP} is 0.01, not within"
    )
    assert "last checkpoint: none" in last
    assert [row["step"] for row in runs.rows()] == ["0"]


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize("name", ["Idle", "Blind"])
def test_shaping_nothing_stops_after_the_patience_also_across_a_resume(runs, name):
    set_patience(runs, 3)
    options = (f"--model.algorithm=broken.{name}", "--trainer.max_epochs=5")
    with pytest.raises(ShapingError, match="in RL step 3, .* 0 for 3 RL steps in a row"):
        runs(*options)
    assert checkpoints(runs) == ["step=0001.ckpt", "step=0002.ckpt"]
    assert {row["train/shaping/shaped_fraction"] for row in runs.rows()[1:]} == {"0.0"}
    # A resume is stopped where the unbroken run was, not three steps later.
    with pytest.raises(ShapingError, match="in RL step 3, .* 0 for 3 RL steps in a row"):
        runs(*options, "--ckpt_path=last")


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize(
    "algorithm", ["broken.Plain", "gtpo_lit.algorithms.GRPO", "gtpo_lit.algorithms.DAPO"]
)
def test_algorithms_that_shape_nothing_train_on_and_are_told_once(runs, capsys, algorithm):
    set_patience(runs, 1)
    runs(f"--model.algorithm={algorithm}")
    name = algorithm.rsplit(".", 1)[1]
    said = f"ShapingGuard: {name} logs no {GAP}, so there is nothing to guard"
    assert capsys.readouterr().out.count(said) == 1
    assert [row["step"] for row in runs.rows()] == ["0", "1", "2"]
    assert GAP not in runs.rows()[1]


@pytest.mark.parametrize("kind", ["random", "constant"])
def test_placebos_pass_the_guard(runs, kind):
    set_patience(runs, 1)
    runs(f"--model.algorithm.share_weights={kind}", "--trainer.max_epochs=1")
    row = runs.rows()[1]
    assert float(row[GAP]) < 1e-5
    assert (float(row["train/shaping/shaped_fraction"]) > 0) == (kind != "constant")
    assert (float(row["train/shaping/shapeable_fraction"]) > 0) == (kind != "constant")


@pytest.mark.slow
@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize("name", ["Leaky", "Idle"])
def test_two_ranks_stop_together(runs, name):
    set_patience(runs, 2)
    done = runs.apart(f"--model.algorithm=broken.{name}", "--trainer.max_epochs=4", *TWO)
    assert done.returncode == 1
    assert "in RL step 2, " in done.stderr
    assert [row["step"] for row in runs.rows()] == ["0", "1"]
    assert checkpoints(runs) == ["step=0001.ckpt"]
