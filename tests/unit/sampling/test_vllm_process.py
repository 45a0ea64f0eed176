import os
import random

import numpy as np
import torch

from gtpo_lit.sampling.vllm_process import kept_environment, shared_process


def test_random_streams_environment_and_threads_stay_as_they_were(monkeypatch):
    monkeypatch.setenv("KEPT", "1")
    monkeypatch.delenv("VLLM_ENABLE_V1_MULTIPROCESSING", raising=False)
    set_num_threads = torch.set_num_threads
    before = (torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist())
    environment = dict(os.environ)
    with shared_process():
        assert os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] == "0"
        torch.manual_seed(5)
        random.seed(5)
        np.random.seed(5)
        torch.set_num_threads = print
        os.environ["LD_PRELOAD"] = "other.so"
        del os.environ["KEPT"]
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]
    assert np.random.get_state()[1].tolist() == before[2]
    assert torch.set_num_threads is set_num_threads
    assert dict(os.environ) == environment


def test_what_a_user_chose_is_kept(monkeypatch):
    monkeypatch.setenv("VLLM_LOGGING_LEVEL", "DEBUG")
    with kept_environment():
        assert os.environ["VLLM_LOGGING_LEVEL"] == "DEBUG"
        assert os.environ["VLLM_NO_USAGE_STATS"] == "1"
