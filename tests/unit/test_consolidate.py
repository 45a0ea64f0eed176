"""Report E4: keys, shapes and values of the plain module, from a checkpoint made of shards."""

from pathlib import Path

import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict
from transformers import AutoModelForCausalLM

from gtpo_lit.consolidate import main, read_checkpoint
from gtpo_lit.policy_spec import PolicySpec


class Host(torch.nn.Module):
    def __init__(self, path: Path) -> None:
        super().__init__()
        self.policy = PolicySpec(path=str(path)).load()


@pytest.fixture
def host(tiny_untied: Path) -> tuple[Host, torch.optim.Optimizer]:
    """One optimiser step of a tiny policy."""
    host = Host(tiny_untied)
    optimizer = torch.optim.AdamW(host.parameters(), lr=1e-3)
    ids = torch.arange(4, 12)[None]
    host.policy.model(input_ids=ids, labels=ids).loss.backward()
    optimizer.step()
    return host, optimizer


def shards(folder: Path, host: Host, optimizer: torch.optim.Optimizer, wrapper: str = "") -> Path:
    weights = {name.replace("policy.", f"policy.{wrapper}", 1): value
               for name, value in host.state_dict().items()}  # fmt: skip
    tensors = {
        "state_dict": weights,
        "optimizer_0": get_optimizer_state_dict(host, optimizer),
    }
    dcp.save(tensors, checkpoint_id=folder, no_dist=True)
    torch.save({"rl_step": 3, "epoch": 2, "loops": {}}, folder / "meta.pt")
    return folder


@pytest.mark.parametrize("wrapper", ["", "_orig_mod."])
def test_one_file_holds_what_the_plain_module_and_optimiser_hold(tmp_path, host, wrapper) -> None:
    module, optimizer = host
    folder = shards(tmp_path / "step=0003.ckpt", module, optimizer, wrapper)
    main([str(folder), str(tmp_path / "one.ckpt")])
    content = torch.load(tmp_path / "one.ckpt", weights_only=True)
    assert (content["rl_step"], content["epoch"], content["loops"]) == (3, 2, {})
    wanted = module.state_dict()
    assert list(content["state_dict"]) == list(wanted)
    for name, value in wanted.items():
        assert torch.equal(content["state_dict"][name], value), name
    other = torch.optim.AdamW(Host.parameters(module), lr=1.0)
    other.load_state_dict(content["optimizer_states"][0])
    for parameter, state in optimizer.state.items():
        for name, value in state.items():
            assert torch.equal(other.state[parameter][name], value), name
    assert other.param_groups[0]["lr"] == 1e-3
    assert not list(tmp_path.glob("*.partial"))


def test_a_hugging_face_folder_has_the_trained_weights(tmp_path, host, tiny_untied) -> None:
    module, optimizer = host
    folder = shards(tmp_path / "step=0003.ckpt", module, optimizer)
    main([str(folder), str(tmp_path / "hf"), "--huggingface", f"--policy={tiny_untied}"])
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "hf").state_dict()
    wanted = module.policy.model.state_dict()
    assert loaded.keys() == wanted.keys()
    for name, value in wanted.items():
        assert torch.equal(loaded[name], value), name


def test_a_tied_head_survives(tmp_path, tiny_qwen2) -> None:
    module = Host(tiny_qwen2)
    optimizer = torch.optim.SGD(module.parameters(), lr=1.0)
    folder = shards(tmp_path / "step=0003.ckpt", module, optimizer)
    assert read_checkpoint(folder)["state_dict"].keys() == module.state_dict().keys()
    main([str(folder), str(tmp_path / "hf"), "--huggingface", f"--policy={tiny_qwen2}"])
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "hf")
    assert loaded.lm_head.weight is loaded.model.embed_tokens.weight


def test_what_cannot_be_done_is_named(tmp_path, host, tiny_qwen2) -> None:
    module, optimizer = host
    folder = shards(tmp_path / "step=0003.ckpt", module, optimizer)
    with pytest.raises(ValueError, match="nowhere' is not there"):
        main([str(tmp_path / "nowhere"), str(tmp_path / "out")])
    with pytest.raises(ValueError, match="output .* exists already"):
        main([str(folder), str(tmp_path)])
    with pytest.raises(ValueError, match=r"config.yaml' is not there.*--policy"):
        main([str(folder), str(tmp_path / "out"), "--huggingface"])
    (folder / "__0_0.distcp").unlink()
    with pytest.raises(ValueError, match="lacks __0_0.distcp"):
        main([str(folder), str(tmp_path / "out")])


def test_a_checkpoint_of_another_policy_is_refused(tmp_path, host, tiny_llama) -> None:
    module, optimizer = host
    folder = shards(tmp_path / "step=0003.ckpt", module, optimizer)
    with pytest.raises(ValueError, match="is not of policy .* weights differ"):
        main([str(folder), str(tmp_path / "out"), "--huggingface", f"--policy={tiny_llama}"])
    assert not (tmp_path / "out").exists()
