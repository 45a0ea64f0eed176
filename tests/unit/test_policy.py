"""Scores of sequences: parity, padding, end tokens, files."""

import pytest
import torch
from transformers import AutoModelForCausalLM

from gtpo_lit.policy import CausalPolicy, position_ids
from gtpo_lit.policy_spec import PolicySpec


def _batch(lefts=(0, 3), response=4, longest=9, seed=0):
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(4, 60, (len(lefts), longest), generator=generator)
    mask = torch.arange(longest)[None] >= torch.tensor(lefts)[:, None]
    return ids.masked_fill(~mask, 0), mask, response


@pytest.mark.parametrize("kind", ["qwen2", "llama"])
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("chunk_size", [None, 3])
def test_parity_with_full_logits(make_policy, kind, tied, chunk_size):
    policy = make_policy(kind, tied=tied, chunk_size=chunk_size)
    ids, mask, response = _batch(lefts=(0, 0))
    logp, entropy = policy(ids, mask, response, temperature=0.7)
    logits = policy.model(input_ids=ids).logits[:, -response - 1 : -1] / 0.7
    wanted = -torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), ids[:, -response:].flatten(), reduction="none"
    ).view(2, response)
    torch.testing.assert_close(logp, wanted, rtol=0, atol=1e-5)
    torch.testing.assert_close(
        entropy, torch.distributions.Categorical(logits=logits).entropy(), rtol=0, atol=1e-5
    )


def test_left_padding_changes_nothing(make_policy):
    policy = make_policy()
    ids, mask, response = _batch(lefts=(3, 3))
    padded = policy(ids, mask, response)
    plain = policy(ids[:, 3:], mask[:, 3:], response)
    wider = policy(
        torch.cat([torch.full((2, 5), 7), ids], dim=1),
        torch.cat([torch.zeros(2, 5).bool(), mask], dim=1),
        response,
    )
    for index in (0, 1):
        torch.testing.assert_close(padded[index], plain[index], rtol=0, atol=1e-5)
        torch.testing.assert_close(wider[index], plain[index], rtol=0, atol=1e-5)


def test_positions_count_real_tokens():
    mask = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 0, 0]]).bool()
    assert position_ids(mask).tolist() == [[0, 0, 0, 1, 2], [0, 1, 2, 2, 2]]


def test_chunked_gradients_equal_plain_ones(make_policy):
    ids, mask, response = _batch()
    gradients = []
    for chunk_size in (None, 3):
        policy = make_policy(chunk_size=chunk_size)
        logp, entropy = policy(ids, mask, response, temperature=0.8)
        (logp.sum() + 0.3 * entropy.sum()).backward()
        gradients.append({name: p.grad for name, p in policy.named_parameters()})
    for name, plain in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], plain, rtol=1e-4, atol=1e-4)


def test_logits_that_the_model_changes_after_its_head_are_scored_as_changed(make_policy):
    policy = make_policy()
    policy._changes_logits = True
    plain = make_policy()
    ids, mask, response = _batch()
    for found, wanted in zip(policy(ids, mask, response), plain(ids, mask, response), strict=True):
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-5)


def test_all_end_tokens_are_known(make_policy):
    """Report D3: the generation config may hold several, the tokenizer another."""
    policy = make_policy()
    policy.model.generation_config.eos_token_id = [40, 41]
    again = CausalPolicy(policy.model, policy.tokenizer)
    assert again.end_token_ids == (40, 41, 1)


def test_dropout_is_off_for_good(make_policy):
    policy = make_policy()
    policy.model.add_module("extra", torch.nn.Dropout(0.5))
    again = CausalPolicy(policy.model, policy.tokenizer).train()
    assert again.model.extra.p == 0.0


def test_export_loads_and_is_never_written_over(make_policy, tmp_path):
    policy = make_policy()
    policy.export(tmp_path / "out")
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    for name, value in policy.model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], value), name
    with pytest.raises(FileExistsError):
        policy.export(tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_fingerprints_tell_weights_apart_and_architectures_do_not(make_policy):
    first, same, other = make_policy(), make_policy(), make_policy(seed=1)
    assert first.fingerprint() == same.fingerprint() != other.fingerprint()
    assert first.architecture() == other.architecture() != make_policy(tied=False).architecture()


def test_loading_moves_no_random_stream_and_gives_the_files_weights(tiny_folder):
    torch.manual_seed(3)
    before = torch.get_rng_state()
    policy = PolicySpec(path=str(tiny_folder)).load()
    assert torch.equal(torch.get_rng_state(), before)
    wanted = AutoModelForCausalLM.from_pretrained(tiny_folder).state_dict()
    for name, value in policy.model.state_dict().items():
        assert torch.equal(wanted[name], value), name


def test_bfloat16_policies_are_scored_in_float32(tiny_folder):
    policy = PolicySpec(path=str(tiny_folder), dtype="bfloat16").load()
    logp, entropy = policy(*_batch())
    assert next(policy.parameters()).dtype == torch.bfloat16
    assert (logp.dtype, entropy.dtype) == (torch.float32, torch.float32)


def test_missing_folders_are_named(tmp_path):
    with pytest.raises(ValueError, match=r"model.policy.path = .*nowhere.*no such folder"):
        PolicySpec(path=str(tmp_path / "nowhere")).check()
    with pytest.raises(ValueError, match=r"embedded are \["):
        PolicySpec(path="embedded:nothing").check()
    with pytest.raises(ValueError, match=r"some/model.*HF_HUB_OFFLINE is set"):
        PolicySpec(path="some/model").check()


def test_weights_that_are_not_safetensors_are_refused(tiny_folder, tmp_path):
    for item in tiny_folder.iterdir():
        if item.suffix == ".json":
            (tmp_path / item.name).write_bytes(item.read_bytes())
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(ValueError, match=r"no \*.safetensors \(only pytorch_model.bin"):
        PolicySpec(path=str(tmp_path)).check()


@pytest.mark.parametrize("wrong", [{"dtype": "int8"}, {"chunk_size": 0}])
def test_wrong_options_are_named(wrong):
    with pytest.raises(ValueError, match=f"model.policy.{next(iter(wrong))}"):
        PolicySpec(**wrong)
