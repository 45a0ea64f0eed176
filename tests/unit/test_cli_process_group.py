"""A run that ends well leaves no process group behind; one that fails touches none."""

import pytest
import torch.distributed as dist

from gtpo_lit import cli, lightning_cli
from gtpo_lit.preemption import Preempted


@pytest.fixture
def group(tmp_path):
    """A group of this process alone."""
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
    yield
    if dist.is_initialized():
        dist.destroy_process_group()


def run(monkeypatch, end: BaseException | None) -> None:
    def work(args, mark):
        mark.begun = True
        if end is not None:
            raise end

    monkeypatch.setattr(lightning_cli, "GtpoCLI", work)
    cli.main(["fit"])


def test_a_finished_run_leaves_the_group(group, monkeypatch):
    run(monkeypatch, None)
    assert not dist.is_initialized()


@pytest.mark.parametrize("together", [True, False])
def test_a_preempted_run_leaves_it_if_all_ranks_end_between_two_steps(group, monkeypatch, together):
    with pytest.raises(Preempted) as end:
        run(monkeypatch, Preempted(together=together))
    assert end.value.code == 75
    assert dist.is_initialized() is not together


@pytest.mark.parametrize("error", [ValueError("no"), RuntimeError("no"), SystemExit(2)])
def test_a_rank_that_fails_waits_for_no_other_one(group, monkeypatch, error):
    with pytest.raises(type(error)):
        run(monkeypatch, error)
    assert dist.is_initialized()


def test_without_a_group_there_is_nothing_to_leave(monkeypatch):
    run(monkeypatch, None)
    assert not dist.is_initialized()
