"""Two ranks (gloo) against one: the same completions, credit and metrics; an error ends all."""

import pytest

TWO = ("--config=configs/strategy/ddp.yaml",)


def test_two_ranks_sample_and_learn_as_one(runs):
    one = runs.apart("--run.name=one")
    two = runs.apart("--run.name=two", "--data.micro_batches=2", *TWO)
    assert one.returncode == 0, one.stderr[-2000:]
    assert two.returncode == 0, two.stderr[-2000:]
    ours, theirs = runs.rows(name="one"), runs.rows(name="two")
    assert len(ours) == len(theirs) == 3
    exact = ("train/reward/mean", "train/length/mean", "train/length/max", "train/correct/fraction")
    for first, second in zip(ours, theirs, strict=True):
        assert first.keys() == second.keys()
        for name in first:
            if name in exact or name.startswith("val/"):
                assert first[name] == second[name], name
            elif first[name]:
                wanted = pytest.approx(float(second[name]), rel=1e-4, abs=1e-5)
                assert float(first[name]) == wanted, name


FAILING = '''
from gtpo_lit.algorithms import GRPO

class Failing(GRPO):
    """Raises on one rank only, in the second step."""

    def loss(self, logp, entropy, batch):
        import torch.distributed as dist
        self.calls = getattr(self, "calls", 0) + 1
        if dist.get_rank() == {rank} and self.calls == 4:
            raise RuntimeError("a fault on one rank")
        return super().loss(logp, entropy, batch)
'''


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["ddp", "fsdp2"])
@pytest.mark.parametrize("rank", [0, 1])
def test_an_error_on_one_rank_ends_all_without_a_hang(runs, tmp_path, monkeypatch, rank, strategy):
    (tmp_path / "failing.py").write_text(FAILING.format(rank=rank))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    split = f"--config=configs/strategy/{strategy}.yaml"
    done = runs.apart("--model.algorithm=failing.Failing", split)
    assert done.returncode != 0
    assert "a fault on one rank" in done.stderr
    assert [row["step"] for row in runs.rows()] == ["0", "1"]
