"""The recipes in configs/paper: what each method is, on both models, and how a step is cut."""

import sys
from pathlib import Path

import pytest
import yaml

from gtpo_lit.cli import main
from gtpo_lit.rollout.micro_batches import Cut

ROOT = Path(__file__).parents[2]
PAPER = ROOT / "configs" / "paper"
MODELS = {"qwen2.5_7b": "Qwen/Qwen2.5-7B", "qwen2.5_32b": "Qwen/Qwen2.5-32B"}
CLIP = {"clip_low": 0.2, "clip_high": 0.28}
PRINTED = {"gate": False, "entropy_clip": [0.2, 0.28]}
METHODS = {
    "grpo_letter": ("GRPO", CLIP),
    "grpo_default": ("GRPO", {"clip_low": 0.2, "clip_high": 0.2}),
    "dapo_letter": ("DAPO", {**CLIP, "dual_clip": None}),
    "dapo_default": ("DAPO", {**CLIP, "dual_clip": 10.0}),
    "forking_dapo_letter": ("ForkingDAPO", {**CLIP, "fraction": 0.2, "dual_clip": None}),
    "forking_dapo_default": ("ForkingDAPO", {**CLIP, "fraction": 0.2, "dual_clip": 10.0}),
    "gtpo_letter": (
        "GTPO",
        {**CLIP, **PRINTED, "alpha1": 1.0, "alpha2": 0.1, "normalisation": "separate"},
    ),
    "gtpo_default": (
        "GTPO",
        {**CLIP, "gate": True, "entropy_clip": None, "alpha2": 0.1, "normalisation": "joint"},
    ),
    "grpo_s_letter": ("GRPOS", {**CLIP, **PRINTED, "beta1": 1.0, "beta2": 0.1}),
    "grpo_s_default": ("GRPOS", {**CLIP, "gate": True, "entropy_clip": None, "beta2": 0.1}),
}


def bound(capsys, monkeypatch, *names, command="fit"):
    """The whole config that these files make."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "argv", ["gtpo-lit"])
    files = [f"--config=configs/paper/{name}.yaml" for name in names]
    with pytest.raises(SystemExit) as stopped:
        main([command, *files, "--print_config"])
    assert stopped.value.code == 0
    return yaml.safe_load(capsys.readouterr().out)


def test_the_table_names_every_file():
    found = {path.stem for path in PAPER.glob("*.yaml")}
    assert found == {*MODELS, *METHODS, "dapo_recipe"}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("method", METHODS)
def test_a_method_on_a_model(model, method, capsys, monkeypatch):
    config = bound(capsys, monkeypatch, model, method)
    name, options = METHODS[method]
    algorithm = config["model"]["algorithm"]
    assert algorithm["class_path"] == f"gtpo_lit.algorithms.{name}"
    assert {key: algorithm["init_args"][key] for key in options} == options
    assert config["model"]["policy"]["path"] == MODELS[model]
    assert config["model"]["kl_weight"] == 0.0
    assert config["model"]["optimizer"]["init_args"]["lr"] == 1e-6
    assert config["trainer"]["max_epochs"] == 210
    data = config["data"]
    assert (data["group_size"], data["problems_per_step"]) == (16, 128)
    assert (data["max_prompt_length"], data["sampling"]["max_tokens"]) == (2048, 4096)
    assert (data["sampling"]["temperature"], data["sampling"]["top_p"]) == (1.0, 1.0)
    assert data["validation_samples"] == 32


@pytest.mark.parametrize("model", MODELS)
def test_the_sets_are_named_by_their_hub_ids(model, capsys, monkeypatch):
    data = bound(capsys, monkeypatch, model, command="test")["data"]
    assert data["problems"]["init_args"]["path"] == "BytedTsinghua-SIA/DAPO-Math-17k"
    hub = {name: one["init_args"]["path"] for name, one in data["test"].items()}
    assert hub == {
        "aime24": "HuggingFaceH4/aime_2024",
        "aime25": "math-ai/aime25",
        "math500": "HuggingFaceH4/MATH-500",
    }
    # The overlays for data say how the same sets are read.
    for name, one in data["test"].items():
        overlay = yaml.safe_load((ROOT / "configs" / "data" / f"{name}.yaml").read_text())
        expected = overlay["data"]["validation"][name]
        assert one["class_path"] == expected["class_path"]
        for option, value in expected["init_args"].items():
            found = one["init_args"][option]
            assert {k: found[k] for k in value} == value if option == "columns" else found == value
        if name != "math500":
            assert data["validation"][name] == one
    overlay = yaml.safe_load((ROOT / "configs" / "data" / "dapo_math_17k.yaml").read_text())
    for option in ("question_prefix", "question_suffix"):
        expected = overlay["data"]["problems"]["init_args"][option]
        assert data["problems"]["init_args"][option] == expected


@pytest.mark.parametrize(
    ("files", "optimiser_steps", "rows"),
    [
        (("qwen2.5_7b", "gtpo_letter"), 4, 2),
        (("qwen2.5_32b", "gtpo_default"), 4, 2),
        (("qwen2.5_32b", "dapo_recipe"), 16, 1),
    ],
)
def test_a_step_is_cut_into_mini_batches_of_32_problems(
    files, optimiser_steps, rows, capsys, monkeypatch
):
    config = bound(capsys, monkeypatch, *files)
    trainer, data = config["trainer"], config["data"]
    ranks = trainer["devices"] * trainer["num_nodes"]
    sequences = data["problems_per_step"] * data["group_size"]
    cut = Cut.of_step(
        sequences,
        passes=data["passes"],
        micro_batches=data["micro_batches"],
        accumulate=trainer["accumulate_grad_batches"],
        ranks=ranks,
        max_tokens=None,
    )
    assert (ranks, len(cut), cut.rows) == (64, data["micro_batches"], rows)
    assert len(cut) // trainer["accumulate_grad_batches"] == optimiser_steps
    assert sequences // optimiser_steps == 32 * data["group_size"]


def test_the_recipe_of_dapo(capsys, monkeypatch):
    config = bound(capsys, monkeypatch, "qwen2.5_32b", "dapo_recipe")
    assert config["model"]["algorithm"]["class_path"] == "gtpo_lit.algorithms.DAPO"
    assert config["model"]["algorithm"]["init_args"]["dual_clip"] == 10.0
    assert config["model"]["schedule"]["warmup_steps"] == 10
    data = config["data"]
    assert data["sampling"]["max_tokens"] == 20480
    assert data["dynamic_sampling"] == {"max_rounds": 10}
    (penalty,) = data["length_penalties"]
    assert penalty["class_path"].endswith("SoftOverlong")
    assert penalty["init_args"] == {"buffer": 4096, "factor": 1.0, "max_length": None}
    assert data["overlong_filter"] is False
