import pytest
import torch.distributed as dist
import torch.multiprocessing as multiprocessing

from gtpo_lit.sampling.engine_group import EngineGroup, check_size
from gtpo_lit.types import SampleRequest


def requests(rank):
    return [SampleRequest(prompt_ids=(rank, place), seeds=(1,)) for place in range(1 + rank % 2)]


def gather(rank, file):
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=4)
    gathered, own = EngineGroup(2).gather(requests(rank))
    first = rank // 2 * 2
    assert gathered == [*requests(first), *requests(first + 1)]
    assert gathered[own] == requests(rank)
    with pytest.raises(ValueError, match="tensor_parallel = 3 does not divide the 4 rank"):
        check_size(3)
    check_size(2)
    dist.destroy_process_group()


@pytest.mark.slow
def test_ranks_of_an_engine_see_the_same_requests_and_keep_their_own(tmp_path):
    multiprocessing.spawn(gather, (tmp_path / "group",), nprocs=4)


def test_an_engine_of_one_rank_needs_no_group():
    assert EngineGroup(1).gather(requests(1)) == (requests(1), slice(0, 2))


def test_one_rank_cannot_share_an_engine():
    check_size(1)
    with pytest.raises(ValueError, match=r"tensor_parallel = 2 does not divide the 1 rank\(s\)"):
        check_size(2)
