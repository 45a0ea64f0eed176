"""Runs that train adapters alone: what is trained, saved, resumed, referred to and exported."""

import pytest
import torch
import yaml
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from gtpo_lit.policy import CausalPolicy, PolicySpec
from gtpo_lit.policy_lora import LoRA

LORA = ("--config=configs/policy/lora.yaml", "--model.policy.lora.rank=4")


def checkpoint(runs, number=0, step=1, name="run"):
    return runs.version(number, name) / "checkpoints" / f"step={step:04d}.ckpt"


@pytest.fixture
def other_base(tmp_path):
    """The embedded policy with another embedding."""
    policy = PolicySpec().load()
    with torch.no_grad():
        policy.model.get_input_embeddings().weight[0, 0] += 1.0
    policy.export(tmp_path / "other_base")
    return tmp_path / "other_base"


def test_a_checkpoint_holds_adapters_their_optimiser_and_the_hash_of_their_base(runs):
    runs(*LORA)
    saved = torch.load(checkpoint(runs, step=2), weights_only=True)
    wanted = PolicySpec(lora=LoRA(rank=4)).load().state_dict()
    assert {name: value.shape for name, value in saved["state_dict"].items()} == {
        f"policy.{name}": value.shape for name, value in wanted.items()
    }
    assert all("lora_" in name for name in saved["state_dict"])
    moved = [float(v.abs().sum()) > 0 for n, v in saved["state_dict"].items() if "lora_B" in n]
    assert all(moved)
    assert len(saved["optimizer_states"][0]["state"]) == len(wanted)
    assert saved["meaning"]["base"]["sha256"] == PolicySpec().load().fingerprint()
    assert saved["meaning"]["base"]["path"] == "embedded:chains"
    assert saved["meaning"]["policy.lora"]["rank"] == 4


@pytest.mark.parametrize("kl", [(), ("--model.kl_weight=0.1", "--model.kl_kind=k2")])
def test_a_resume_repeats_the_uninterrupted_run(runs, kl):
    options = (*LORA, *kl, "--trainer.max_epochs=3")
    runs(*options)
    runs(*options, f"--ckpt_path={checkpoint(runs)}")
    assert runs.metrics(1) == runs.metrics(0)
    last = [torch.load(checkpoint(runs, n, step=3), weights_only=True) for n in (0, 1)]
    for name, value in last[0]["state_dict"].items():
        assert torch.equal(value, last[1]["state_dict"][name]), name


def test_the_reference_is_the_base_and_takes_no_second_copy(runs, monkeypatch):
    loads, load = [], PolicySpec.load
    monkeypatch.setattr(PolicySpec, "load", lambda spec: loads.append(spec) or load(spec))
    runs(*LORA, "--model.kl_weight=0.1", "--model.kl_kind=k2")
    assert len(loads) == 1
    rows = runs.rows()
    assert float(rows[1]["train/kl/reference"]) == pytest.approx(0.0, abs=1e-6)
    assert float(rows[2]["train/kl/reference"]) > 1e-6
    saved = torch.load(checkpoint(runs), weights_only=True)["meaning"]
    assert saved["reference"] == saved["base"]["sha256"]


def test_another_base_is_refused_by_name(runs, other_base, capsys):
    runs(*LORA)
    for command in ("fit", "validate"):
        options = (*LORA, f"--ckpt_path={checkpoint(runs)}", f"--model.policy.path={other_base}")
        with pytest.raises((ValueError, SystemExit)) as stopped:
            runs(*options, command=command)
        shown = str(stopped.value) + capsys.readouterr().err
        assert "adapters belong to 'embedded:chains'" in shown
        assert str(other_base) in shown


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (LORA, (), "holds adapters of 'embedded:chains'"),
        ((), LORA, "holds whole weights and no adapters"),
        (LORA, (*LORA, "--model.policy.lora.alpha=3"), "'alpha': 32.0"),
    ],
)
def test_other_adapters_are_refused(runs, capsys, first, second, message):
    runs(*first, "--trainer.max_epochs=1")
    with pytest.raises((ValueError, SystemExit)) as stopped:
        runs(*second, f"--ckpt_path={checkpoint(runs)}")
    assert message in str(stopped.value) + capsys.readouterr().err


def test_the_export_is_the_merged_policy(runs):
    runs(*LORA, "--trainer.callbacks+=callbacks.ExportHF")
    folder = runs.version() / "export" / "step=0002"
    policy = PolicySpec(lora=LoRA(rank=4)).load()
    state = torch.load(checkpoint(runs, step=2), weights_only=True)["state_dict"]
    policy.load_state_dict({name.removeprefix("policy."): v for name, v in state.items()})
    model = AutoModelForCausalLM.from_pretrained(folder)
    merged = CausalPolicy(model, policy.tokenizer)
    ids = torch.tensor([policy.tokenizer("3+4+5+6+7=").input_ids])
    everything = torch.ones_like(ids).bool()
    with torch.no_grad():
        values, wanted = (one(ids, everything, 5)[0] for one in (merged, policy))
    torch.testing.assert_close(values, wanted, rtol=1e-5, atol=1e-5)
    base = PolicySpec().load().model.state_dict()
    saved = load_file(folder / "model.safetensors")
    changed = [name for name, value in saved.items() if not torch.equal(value, base[name])]
    assert len(changed) == len(state) // 2
    # A plain run starts where this one ended.
    runs("--run.name=plain", f"--model.policy.path={folder}", "--trainer.max_epochs=1")
    after, before = runs.rows()[2], runs.rows(name="plain")[0]
    assert after["val/chains/pass@1"] == before["val/chains/pass@1"]


def test_validate_takes_the_adapters_of_a_checkpoint(runs, capsys):
    runs(*LORA)
    trained = float(runs.rows()[2]["val/chains/pass@1"])
    capsys.readouterr()
    runs(*LORA, f"--ckpt_path={checkpoint(runs, step=2)}", command="validate")
    assert f"{trained:.4f}" in capsys.readouterr().out


def test_the_saved_config_can_be_used_again(runs):
    runs("--model.policy.lora.rank=2", "--model.policy.lora.target_modules=[q_proj, v_proj]")
    saved = yaml.safe_load((runs.version() / "config.yaml").read_text())
    assert saved["model"]["policy"]["lora"]["target_modules"] == ["q_proj", "v_proj"]
    state = torch.load(checkpoint(runs), weights_only=True)["state_dict"]
    assert {name.split(".")[-4] for name in state} == {"q_proj", "v_proj"}
    from gtpo_lit.cli import main

    main(["fit", f"--config={runs.version() / 'config.yaml'}"])
    assert runs.metrics(1) == runs.metrics(0)


def test_two_ranks_learn_as_one(runs):
    options = (*LORA, "--model.kl_weight=0.1")
    one = runs.apart(*options, "--run.name=one")
    two = runs.apart(
        *options, "--run.name=two", "--data.micro_batches=2", "--config=configs/strategy/ddp.yaml"
    )
    assert one.returncode == 0, one.stderr[-2000:]
    assert two.returncode == 0, two.stderr[-2000:]
    ours, theirs = runs.rows(name="one"), runs.rows(name="two")
    assert len(ours) == len(theirs) == 3
    for first, second in zip(ours, theirs, strict=True):
        assert first.keys() == second.keys()
        for name in first:
            if name.startswith("val/") or name == "train/reward/mean":
                assert first[name] == second[name], name
            elif first[name]:
                wanted = pytest.approx(float(second[name]), rel=1e-4, abs=1e-5)
                assert float(first[name]) == wanted, name
    states = [
        torch.load(checkpoint(runs, step=2, name=name), weights_only=True)["state_dict"]
        for name in ("one", "two")
    ]
    assert states[0].keys() == states[1].keys()
    for name, value in states[0].items():
        torch.testing.assert_close(states[1][name], value, rtol=0, atol=1e-5)


def test_the_weights_that_a_run_pushes_stay_in_step(runs):
    """The sampler has the live model: what it reports are the policy's own log-probs."""
    runs(*LORA, "--trainer.max_epochs=3")
    assert all(float(row["train/sampler_gap/max"]) < 1e-4 for row in runs.rows()[1:])


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("rank=0", "model.policy.lora.rank must be at least 1, got 0"),
        ("target_modules=[lm_head]", "'lm_head' is the model's embedding or output head"),
        ("target_modules=[q]", "no linear layer is called 'q'; there are ['down_proj'"),
        ("ranks=4", "ranks"),
    ],
)
def test_mistakes_are_named_before_a_run_folder_is_there(runs, capsys, option, message):
    with pytest.raises(SystemExit) as stopped:
        runs(f"--model.policy.lora.{option}")
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err
    assert not runs.root.exists()
