from __future__ import annotations

import copy
import json
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    BloomConfig,
    BloomForCausalLM,
    CohereConfig,
    CohereForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    GraniteConfig,
    GraniteForCausalLM,
    PreTrainedModel,
)

from gtpo_lit.policy import CausalPolicy, PolicySpec, head_is_plain

PROMPT, RESPONSE = 7, 5


def batch(rows: int = 3, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Rows with 0, 1, 2, ... pads on the left and as many on the right, of random tokens."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(4, 56, (rows, PROMPT + RESPONSE), generator=generator)
    place = torch.arange(PROMPT + RESPONSE)
    row = torch.arange(rows)[:, None]
    attention = (place >= row) & (place < PROMPT + RESPONSE - row)
    return ids.masked_fill(~attention, 0), attention


def plain(policy: CausalPolicy, ids: Tensor, attention: Tensor, temperature: float):
    """Rows one by one without padding, log-prob and entropy from the model's own logits."""
    rows = []
    for row, keep in zip(ids, attention, strict=True):
        count = int(keep[-RESPONSE:].sum())
        tokens = row[keep]
        logits = policy.model(input_ids=tokens[None]).logits[0, -count - 1 : -1] / temperature
        logp = -nn.functional.cross_entropy(logits, tokens[-count:], reduction="none")
        entropy = torch.distributions.Categorical(logits=logits).entropy()
        rows.append((logp, entropy))
    pad = nn.utils.rnn.pad_sequence
    return pad([r[0] for r in rows], True), pad([r[1] for r in rows], True)


@pytest.fixture(params=["tiny_qwen2", "tiny_llama", "tiny_untied"])
def policy(request: pytest.FixtureRequest) -> CausalPolicy:
    return PolicySpec(path=str(request.getfixturevalue(request.param))).load()


@pytest.mark.parametrize("temperature", [1.0, 0.6])
@pytest.mark.parametrize("chunk_size", [None, 2])
def test_scores_equal_cross_entropy_and_categorical(policy, temperature, chunk_size):
    policy.chunk_size = chunk_size
    ids, attention = batch()
    logp, entropy = policy(ids, attention, RESPONSE, temperature=temperature)
    expected_logp, expected_entropy = plain(policy, ids, attention, temperature)
    torch.testing.assert_close(logp, expected_logp, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(entropy, expected_entropy, rtol=1e-5, atol=1e-5)
    assert (logp[2, 3:] == 0).all()
    assert (entropy[2, 3:] == 0).all()


@pytest.mark.parametrize("plain_head", [True, False])
@pytest.mark.parametrize("chunk_size", [None, 2])
def test_without_entropies_log_probs_and_gradient_are_the_same_to_the_bit(
    policy, plain_head, chunk_size
):
    policy.chunk_size, policy._plain_head = chunk_size, plain_head
    ids, attention = batch()
    results = []
    for with_entropy in (True, False):
        policy.zero_grad()
        logp, entropy = policy(ids, attention, RESPONSE, temperature=0.7, with_entropy=with_entropy)
        assert (entropy is None) is not with_entropy
        logp.square().sum().backward()
        results.append([logp.detach(), *(p.grad.clone() for p in policy.parameters())])
    for both, alone in zip(*results, strict=True):
        assert torch.equal(alone, both)
    expected, _ = plain(policy, ids, attention, 0.7)
    torch.testing.assert_close(results[1][0], expected.detach(), rtol=1e-5, atol=1e-5)


def test_gradient_equals_the_plain_path(policy):
    ids, attention = batch()
    weight = torch.randn(3, RESPONSE, generator=torch.Generator().manual_seed(1))
    gradients = []
    for score in (
        lambda: policy(ids, attention, RESPONSE, temperature=0.7),
        lambda: plain(policy, ids, attention, 0.7),
    ):
        policy.zero_grad()
        logp, entropy = score()
        (weight * logp + 0.5 * weight * entropy).sum().backward()
        gradients.append([p.grad.clone() for p in policy.parameters()])
    for got, expected in zip(*gradients, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)
    assert sum(float(g.abs().sum()) for g in gradients[0]) > 1


def test_left_padding_changes_nothing(policy):
    ids, attention = batch(rows=1)
    before = policy(ids, attention, RESPONSE)
    ids = nn.functional.pad(ids, (9, 0), value=33)  # whatever the pads are
    after = policy(ids, nn.functional.pad(attention, (9, 0)), RESPONSE)
    torch.testing.assert_close(after[0], before[0], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(after[1], before[1], rtol=1e-5, atol=1e-6)


def test_fully_padded_batch_gives_zeros_and_a_zero_gradient(policy):
    ids, attention = batch()
    logp, entropy = policy(ids, torch.zeros_like(attention), RESPONSE)
    assert (logp == 0).all()
    assert (entropy == 0).all()
    (logp.sum() + entropy.sum()).backward()
    # No gradient at all would make DDP wait for ever.
    assert all((p.grad == 0).all() for p in policy.parameters())


def test_padded_row_leaves_the_gradient_of_the_others_alone(policy):
    ids, attention = batch()
    attention[1] = False
    policy(ids, attention, RESPONSE)[0].sum().backward()
    got = [p.grad.clone() for p in policy.parameters()]
    policy.zero_grad()
    policy(ids[[0, 2]], attention[[0, 2]], RESPONSE)[0].sum().backward()
    for one, other in zip(got, [p.grad for p in policy.parameters()], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_tempered_values_of_a_known_distribution(tiny_untied):
    # Logits [2, 1, 0] after any prompt: hidden states of 0 and a bias that holds the logits.
    policy = PolicySpec(path=str(tiny_untied)).load()
    bias = torch.full((64,), -torch.inf)
    bias[:3] = torch.tensor([2.0, 1.0, 0.0])
    policy.model.lm_head = nn.Linear(64, 64)
    policy.model.lm_head.weight.data.zero_()
    policy.model.lm_head.bias.data = bias
    ids = torch.tensor([[5, 0]])
    for temperature, logp, probabilities in (
        (0.6, -0.202573, [0.816629, 0.154240, 0.029131]),
        (1.0, -0.407606, [0.665241, 0.244728, 0.090031]),
    ):
        got, entropy = policy(ids, torch.ones_like(ids).bool(), 1, temperature=temperature)
        assert got.item() == pytest.approx(logp, abs=1e-6)
        expected = -sum(p * np.log(p) for p in probabilities)
        assert entropy.item() == pytest.approx(expected, abs=1e-5)


def test_bfloat16_weights_are_scored_in_float32(tiny_untied):
    policy = PolicySpec(path=str(tiny_untied), dtype="bfloat16").load()
    ids, attention = batch(rows=1)
    logp, entropy = policy(ids, attention, RESPONSE)
    assert policy.model.lm_head.weight.dtype == torch.bfloat16
    assert (logp.dtype, entropy.dtype) == (torch.float32, torch.float32)
    hidden = policy.model.model(ids).last_hidden_state[:, -RESPONSE - 1 : -1]
    logits = hidden.double() @ policy.model.lm_head.weight.double().T
    expected = torch.distributions.Categorical(logits=logits)
    torch.testing.assert_close(
        logp.double(), expected.log_prob(ids[:, -RESPONSE:]), rtol=1e-5, atol=1e-5
    )
    torch.testing.assert_close(entropy.double(), expected.entropy(), rtol=1e-5, atol=1e-5)


SMALL = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
DECODER = SMALL | {"intermediate_size": 32, "num_key_value_heads": 1, "head_dim": 16}
DECODER |= {"bos_token_id": 2, "eos_token_id": 1, "pad_token_id": 0}


def other_models() -> dict[str, tuple[PreTrainedModel, bool]]:
    """Models by name, and whether their head is plain."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return {
            "soft cap": (Gemma2ForCausalLM(Gemma2Config(**DECODER, sliding_window=4)), False),
            "logits divided": (
                GraniteForCausalLM(GraniteConfig(**DECODER, logits_scaling=4)),
                False,
            ),
            "logits multiplied": (CohereForCausalLM(CohereConfig(**DECODER)), False),
            "learned positions": (
                GPT2LMHeadModel(GPT2Config(vocab_size=64, n_embd=32, n_layer=2, n_head=2)),
                True,
            ),
            "no positions": (
                BloomForCausalLM(BloomConfig(vocab_size=64, hidden_size=32, n_layer=2, n_head=2)),
                True,
            ),
        }


@pytest.mark.parametrize("name", other_models())
def test_other_architectures_are_scored_as_they_score_themselves(name, tiny_qwen2):
    model, is_plain = other_models()[name]
    assert head_is_plain(model) is is_plain
    policy = CausalPolicy(model.eval(), AutoTokenizer.from_pretrained(tiny_qwen2))
    ids, attention = batch()
    logp, entropy = policy(ids, attention, RESPONSE, temperature=0.8)
    expected_logp, expected_entropy = plain(policy, ids, attention, 0.8)
    torch.testing.assert_close(logp, expected_logp, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(entropy, expected_entropy, rtol=1e-5, atol=1e-5)


def test_a_changed_head_input_is_not_plain(tiny_qwen2):
    model = AutoModelForCausalLM.from_pretrained(tiny_qwen2)
    model.lm_head.register_forward_pre_hook(lambda _module, inputs: (inputs[0] / 2,))
    assert head_is_plain(model) is False


def test_end_tokens_come_from_all_configs(tiny_qwen2, tiny_two_ends):
    one, two = (PolicySpec(path=str(folder)).load() for folder in (tiny_qwen2, tiny_two_ends))
    assert (one.end_token_ids, one.pad_token_id) == ((1,), 0)
    assert (two.end_token_ids, two.pad_token_id) == ((1, 5), 0)
    model, tokenizer = copy.deepcopy(one.model), copy.deepcopy(one.tokenizer)
    model.generation_config.eos_token_id, model.config.eos_token_id = [7], 8
    tokenizer.pad_token = None
    policy = CausalPolicy(model, tokenizer)
    assert (policy.end_token_ids, policy.pad_token_id) == ((7, 8, 1), 7)


def test_loading_leaves_global_random_streams_alone(tiny_qwen2):
    torch.manual_seed(3)
    random.seed(3)
    np.random.seed(3)
    before = (torch.get_rng_state(), random.getstate(), np.random.get_state()[1].copy())
    PolicySpec(path=str(tiny_qwen2)).load()
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]
    assert (np.random.get_state()[1] == before[2]).all()


def test_load_sets_dtype_attention_checkpointing_and_no_dropout(tmp_path, tiny_qwen2):
    folder = edited(tiny_qwen2, tmp_path / "model", attention_dropout=0.1)
    spec = PolicySpec(
        path=str(folder), dtype="bfloat16", attn_implementation="eager", gradient_checkpointing=True
    )
    policy = spec.load()
    assert policy.model.dtype == torch.bfloat16
    assert policy.model.config._attn_implementation == "eager"
    assert policy.model.config.attention_dropout == 0
    assert policy.model.is_gradient_checkpointing
    assert policy.training
    auto = PolicySpec(path=str(folder), dtype="auto").load()
    assert auto.model.dtype == torch.float32


def test_gradient_checkpointing_gives_the_same_gradient(tiny_qwen2):
    gradients = []
    for checkpointing in (False, True):
        policy = PolicySpec(path=str(tiny_qwen2), gradient_checkpointing=checkpointing).load()
        policy(*batch(), RESPONSE)[0].sum().backward()
        gradients.append([p.grad for p in policy.parameters()])
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def test_fingerprint_follows_the_weights(tiny_qwen2):
    spec = PolicySpec(path=str(tiny_qwen2))
    policy, twin = spec.load(), spec.load()
    assert policy.fingerprint() == twin.fingerprint()
    assert len(policy.fingerprint()) == 64
    with torch.no_grad():
        next(twin.parameters())[0, 0] += 1e-3
    assert policy.fingerprint() != twin.fingerprint()
    assert policy.fingerprint() != copy.deepcopy(policy).bfloat16().fingerprint()


def test_export_round_trip(policy, tmp_path):
    policy.export(tmp_path / "deep" / "export")
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "deep" / "export")
    for name, value in policy.model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], value), name
    again = PolicySpec(path=str(tmp_path / "deep" / "export")).load()
    assert again.fingerprint() == policy.fingerprint()
    assert again.tokenizer("3+4=").input_ids == policy.tokenizer("3+4=").input_ids
    assert [p.name for p in (tmp_path / "deep").iterdir()] == ["export"]


def test_export_writes_over_nothing(tiny_qwen2, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="exists and is not empty"):
        PolicySpec(path=str(tiny_qwen2)).load().export(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["notes.txt"]


def edited(source: Path, target: Path, **config: object) -> Path:
    """A copy of a model folder with changes to its config.json."""
    target.mkdir()
    for path in source.iterdir():
        (target / path.name).write_bytes(path.read_bytes())
    text = json.loads((target / "config.json").read_text())
    (target / "config.json").write_text(json.dumps(text | config))
    return target


@pytest.mark.parametrize(
    "path", ["./no/such", "/no/such", "~/no_such_folder", "a/b/c", "tiny models"]
)
def test_missing_folder_is_named(path):
    with pytest.raises(ValueError, match="model.policy.path: no such model folder") as error:
        PolicySpec(path=path).resolve()
    assert repr(path) in str(error.value)


def test_missing_embedded_model_is_named():
    with pytest.raises(ValueError, match="no embedded model 'embedded:nothing'"):
        PolicySpec(path="embedded:nothing").resolve()


def test_offline_hub_id_says_what_is_missing(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ValueError, match="'nobody/nothing'.*HF_HUB_OFFLINE.*config.json"):
        PolicySpec(path="nobody/nothing").check()


def test_hub_id_is_left_to_the_hub_when_online(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    assert PolicySpec(path="nobody/nothing").resolve() == "nobody/nothing"


def test_pickled_weights_are_refused(tiny_qwen2, tmp_path):
    folder = edited(tiny_qwen2, tmp_path / "model")
    state = AutoModelForCausalLM.from_pretrained(tiny_qwen2).state_dict()
    torch.save(state, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(ValueError, match="lacks safetensors.*pytorch_model.bin"):
        PolicySpec(path=str(folder)).check()


def test_missing_shard_is_named(tiny_qwen2, tmp_path):
    folder = edited(tiny_qwen2, tmp_path / "model")
    index = {"metadata": {}, "weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "model.safetensors").rename(folder / "model-1.safetensors")
    with pytest.raises(ValueError, match=r"lacks safetensors \['model-2.safetensors'\]"):
        PolicySpec(path=str(folder)).check()


def test_weights_that_leave_the_model_unfilled_are_refused(tiny_qwen2, tmp_path):
    folder = edited(tiny_qwen2, tmp_path / "model", tie_word_embeddings=False)
    with pytest.raises(
        ValueError, match=r"do not fill the model; missing_keys: \['lm_head.weight'\]"
    ):
        PolicySpec(path=str(folder)).load()


def test_config_and_tokenizer_must_be_there_and_fit(tiny_qwen2, tmp_path):
    folder = edited(tiny_qwen2, tmp_path / "few rows", vocab_size=32)
    with pytest.raises(ValueError, match="has 57 tokens, but the model has only 32"):
        PolicySpec(path=str(folder)).check()
    folder = edited(tiny_qwen2, tmp_path / "no config")
    (folder / "config.json").unlink()
    with pytest.raises(ValueError, match="model.policy.path: no config loads from"):
        PolicySpec(path=str(folder)).check()
    folder = edited(tiny_qwen2, tmp_path / "no tokenizer")
    for path in folder.glob("tokenizer*"):
        path.unlink()
    with pytest.raises(ValueError, match="model.policy.path: no tokenizer loads from"):
        PolicySpec(path=str(folder)).check()


def test_attention_that_is_not_there_is_refused(tiny_qwen2):
    with pytest.raises(ValueError, match="attn_implementation='no_such'"):
        PolicySpec(path=str(tiny_qwen2), attn_implementation="no_such").check()


def test_values_that_cannot_be_right_are_refused():
    with pytest.raises(ValueError, match="model.policy.dtype must be in .* got 'int8'"):
        PolicySpec(dtype="int8")
    with pytest.raises(ValueError, match="model.policy.chunk_size must be at least 1, got 0"):
        PolicySpec(chunk_size=0)
