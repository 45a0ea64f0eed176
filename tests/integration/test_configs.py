"""Every YAML in configs/ is bound, and every one that a CPU can run trains one step."""

from pathlib import Path

import pytest
import yaml

from gtpo_lit.cli import main

ROOT = Path(__file__).parents[2]
CONFIGS = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "configs").rglob("*.yaml"))

# What a CPU test cannot run, and why; each is still parsed and bound.
NOT_RUN = {
    **{
        f"configs/data/{name}.yaml": "needs a set from the hub; test_hub_schemas.py has its columns"
        for name in (
            *("gsm8k", "math", "dapo_math_17k", "gsm8k_and_math", "math_benchmarks"),
            *("aime24", "aime25", "amc23", "math500"),
        )
    },
    "configs/logger/mlflow.yaml": "needs mlflow; test_loggers.py runs it where it is installed",
    "configs/logger/none.yaml": "leaves no run folder; test_loggers.py runs it",
    "configs/logger/wandb.yaml": "needs wandb; test_loggers.py runs it where it is installed",
    "configs/data/local.yaml": "needs files; test_data_sets.py writes some",
    "configs/data/reasoning_gym.yaml": "the embedded tokenizer knows digits only",
    "configs/prompt/boxed_chat.yaml": "the embedded tokenizer has no chat template",
    "configs/prompt/boxed_plain.yaml": "the embedded tokenizer knows digits only",
    "configs/prompt/few_shot.yaml": "the embedded tokenizer knows digits only",
    "configs/evaluation/gsm8k_50.yaml": "needs a chat template; test_rewards.py runs its reward",
    "configs/reward/math_boxed.yaml": "the embedded policy writes no box; test_rewards.py runs it",
    "configs/paper/dapo_recipe.yaml": "20480 tokens a response; test_paper_recipes.py binds it",
    "configs/paper/qwen2.5_32b.yaml": "needs GPUs and the hub; test_paper_recipes.py binds it",
    "configs/paper/qwen2.5_7b.yaml": "needs GPUs and the hub; test_paper_recipes.py binds it",
    "configs/sampler/vllm_server.yaml": "needs servers; test_vllm_server.py starts them",
    "configs/smollm2.yaml": "needs the model folder that `make smollm2` converts",
    "configs/sampler/vllm.yaml": "needs vLLM; test_vllm_runs.py runs it",
    "configs/strategy/ddp.yaml": "starts a second process; test_distributed.py runs it",
    "configs/strategy/fsdp.yaml": "starts a second process; test_fsdp1.py runs it",
    "configs/strategy/fsdp2.yaml": "starts a second process; test_sharding.py runs it",
    "configs/strategy/ddp_multinode.yaml": "needs 64 processes; test_two_nodes.py runs it with two",
}


def _is_whole(name):
    return "/" not in name.removeprefix("configs/")


@pytest.mark.parametrize("name", CONFIGS)
def test_every_config_is_bound(name, capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    base = [] if _is_whole(name) else ["--config=configs/quickstart.yaml"]
    with pytest.raises(SystemExit) as stopped:
        main(["fit", *base, f"--config={name}", "--print_config"])
    assert stopped.value.code == 0
    assert "seed_everything: 0" in capsys.readouterr().out


@pytest.mark.parametrize("name", [name for name in CONFIGS if name not in NOT_RUN])
def test_every_config_for_a_cpu_trains_one_step(name, runs, monkeypatch):
    monkeypatch.chdir(ROOT)
    base = [] if _is_whole(name) else ["--config=configs/quickstart.yaml"]
    main(
        [
            "fit",
            *base,
            f"--config={name}",
            f"--run.root={runs.root}",
            "--run.name=run",
            "--trainer.max_epochs=1",
            "--data.problems_per_step=4",
            "--data.group_size=4",
            "--data.problems.init_args.size=16",
            "--data.validation.chains.init_args.size=2",
            "--data.validation_samples=2",
        ]
    )
    assert [row["step"] for row in runs.rows()] == ["0", "1"]
    assert float(runs.rows()[1]["train/gradient/norm"]) > 0


def test_the_table_of_exceptions_is_not_stale():
    assert set(NOT_RUN) <= set(CONFIGS)
    assert all(len(reason) > 10 for reason in NOT_RUN.values())


@pytest.mark.parametrize("before", ["local", "dapo_math_17k", "math"])
@pytest.mark.parametrize("name", ["gsm8k", "math", "dapo_math_17k", "local"])
def test_a_training_set_takes_nothing_over_from_the_one_before(capsys, monkeypatch, before, name):
    monkeypatch.chdir(ROOT)

    def problems(*overlays):
        configs = [f"--config=configs/data/{overlay}.yaml" for overlay in overlays]
        with pytest.raises(SystemExit):
            main(["fit", "--config=configs/quickstart.yaml", *configs, "--print_config"])
        return yaml.safe_load(capsys.readouterr().out)["data"]["problems"]

    assert problems(before, name) == problems(name)
