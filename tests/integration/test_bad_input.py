"""Each slip in what is asked for: one early, clear line that names option and value."""

import pytest
from huggingface_hub import constants


def _error(runs, capsys, *options, command="fit"):
    with pytest.raises(SystemExit) as stopped:
        runs(*options, command=command)
    assert stopped.value.code == 2
    assert not runs.root.exists(), "nothing is written before the input is known to be good"
    shown = capsys.readouterr().err
    assert shown.count("error:") == 1
    return shown[shown.index("error:") :]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--data.groupsize=4"], "--data.groupsize"),
        (["--data.group=4"], "--data.group"),
        (["--trainer.max_ep=1"], "--trainer.max_ep"),
        (["--model.policy.path=./nowhere"], "model.policy.path: no such model folder: './nowhere'"),
        (["--model.policy.path=embedded:none"], "no embedded model 'embedded:none'"),
        (["--data.group_size=1"], "data.group_size must be at least 2, got 1"),
        (["--data.micro_batches=3"], "data.micro_batches = 3"),
        (["--data.problems_per_step=3", "--data.micro_batches=8"], "12 sequences do not divide"),
        (["--data.problems_per_step=32", "--data.micro_batches=2"], "24 usable"),
        (["--data.problems_per_step=32"], "data.problems_per_step = 32"),
        (["--data.prompt=gtpo_lit.tasks.PromptTemplate", "--data.prompt.chat=true"],
         "no chat template"),
        (["--data.max_prompt_length=3"], "has no usable problem: 4 were dropped as too long"),
        (["--data.max_prompt_length=3", "--data.long_prompts=error"], "longer than"),
        (["--data.sampling.top_p=0.9"], "top_p=0.9"),
        (["--data.sampling.temperature=0"], "temperature must be above 0 in training, got 0"),
        (["--data.correction.high=0.5"],
         "data.correction.high must be at least 1 and finite, got 0.5"),
        (["--data.entropy_source=none"],
         "data.entropy_source = 'none', but model.algorithm GTPO shapes credit by entropies"),
        (["--data.entropy_source=nowhere"], "data.entropy_source"),
        (["--model.kl_weight=-1"], "model.kl_weight must be at least 0 and finite, got -1"),
        (["--model.kl_weight=.nan"], "model.kl_weight must be at least 0 and finite, got nan"),
        (["--model.kl_weight=null"], '"model.kl_weight": Expected a'),
        (["--data.entropy_source=null"], '"data.entropy_source": Expected a'),
        (["--data.overlong_filter=null"], '"data.overlong_filter": Expected a'),
        (["--data.passes=null"], '"data.passes": Expected a'),
        (["--model.algorithm.gate=null"], "gate = null"),
        (["--model.algorithm.alpha2=1e39"], "of at most 1e+06, got 1.0 and 1e+39"),
        (["--data.dynamic_sampling.max_rounds=0"],
         "data.dynamic_sampling.max_rounds must be at least 1, got 0"),
        (["--data.length_penalties+=gtpo_lit.rollout.length_penalty.SoftOverlong",
          "--data.length_penalties.buffer=27"], "buffer = 27 is longer"),
        (["--model.algorithm.clip_low=0"], "clip_low"),
        (["--model.algorithm=gtpo_lit.algorithms.Nothing"], "Nothing"),
        (["--seed_everything=true"], "seed_everything"),
        (["--data.seed=3"], "seed_everything"),
        (["--trainer.max_steps=7"], "trainer.max_steps = 7"),
        (["--trainer.use_distributed_sampler=true"], "trainer.use_distributed_sampler = True"),
        (["--trainer.callbacks+=ModelCheckpoint", "--trainer.callbacks.every_n_train_steps=3"],
         "every_n_train_steps"),
        (["--ckpt_path=nowhere.ckpt"], "ckpt_path = 'nowhere.ckpt': no such checkpoint"),
        (["--config=nowhere.yaml"], "nowhere.yaml"),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else None,
)  # fmt: skip
def test_the_line_names_what_is_wrong(runs, capsys, options, message):
    assert message in _error(runs, capsys, *options)


def test_an_engine_that_cannot_tell_entropies_is_refused(runs, capsys, tmp_path, monkeypatch):
    (tmp_path / "blind_engine.py").write_text(
        "from gtpo_lit.sampling.sampler import Sampler\n"
        "from gtpo_lit.sampling.transformers import TransformersSampler\n"
        "class Blind(TransformersSampler):\n"
        "    ask_for_entropies = Sampler.ask_for_entropies\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    line = _error(
        runs, capsys, "--data.sampler=blind_engine.Blind", "--data.entropy_source=sampler"
    )
    assert "data.entropy_source = 'sampler': Blind does not report entropies" in line


@pytest.mark.parametrize(
    "line",
    ["data: {entropy_source: null}", "data: {overlong_filter: null}", "model: {kl_weight: null}"],
)
def test_null_in_a_file_is_refused_where_the_option_takes_none(runs, capsys, tmp_path, line):
    (tmp_path / "null.yaml").write_text(line)
    shown = _error(runs, capsys, f"--config={tmp_path / 'null.yaml'}")
    assert line[line.index("{") + 1 :].split(":")[0] in shown
    assert "null" in shown or "None" in shown


def test_offline_the_missing_model_is_named(runs, capsys, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    line = _error(runs, capsys, "--model.policy.path=some/model")
    assert "some/model" in line
    assert "HF_HUB_OFFLINE is set" in line


def test_a_micro_batch_over_its_token_cap_says_which_number_to_raise(runs):
    message = r"over data.max_tokens_per_micro_batch = 20: raise data.micro_batches \(now 2"
    with pytest.raises(ValueError, match=message):
        runs("--data.max_tokens_per_micro_batch=20")


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--seed_everything=5", "data.seed was 0, is 5"),
        ("--data.group_size=8", "data.group_size was 4, is 8"),
        ("--data.sampling.max_tokens=20", "data.sampling.max_tokens was 26, is 20"),
        ("--model.algorithm=gtpo_lit.algorithms.GRPO", "model.algorithm was 'GTPO', is 'GRPO'"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused(runs, capsys, option, message):
    runs("--trainer.max_epochs=1")
    before = runs.metrics(0)
    checkpoint = runs.version(0) / "checkpoints" / "step=0001.ckpt"
    with pytest.raises(SystemExit):
        runs(option, f"--ckpt_path={checkpoint}")
    assert message in capsys.readouterr().err
    assert runs.metrics(0) == before


def test_a_checkpoint_of_another_model_is_refused(runs, capsys, tiny_qwen2):
    runs("--trainer.max_epochs=1")
    checkpoint = runs.version(0) / "checkpoints" / "step=0001.ckpt"
    with pytest.raises(SystemExit):
        runs(f"--model.policy.path={tiny_qwen2}", f"--ckpt_path={checkpoint}", command="validate")
    assert "model.architecture was" in capsys.readouterr().err


def test_a_loss_that_is_not_finite_names_step_metric_and_checkpoint(runs):
    from gtpo_lit.module import NonFiniteError

    with pytest.raises(NonFiniteError, match=r"train/loss is not finite in RL step 2 .*0001.ckp"):
        runs(
            "--model.algorithm=gtpo_lit.algorithms.GRPO",
            "--model.optimizer.lr=1e30",
            "--trainer.gradient_clip_val=null",
        )
    assert [row["step"] for row in runs.rows(0)] == ["0", "1"]


def test_entropies_that_are_not_finite_stop_a_shaping_algorithm_before_its_loss(runs):
    from callbacks import ShapingError

    with pytest.raises(ShapingError, match=r"RL step 2, .*conservation_gap is nan.*0001.ckp"):
        runs("--model.optimizer.lr=1e30", "--trainer.gradient_clip_val=null")
    assert [row["step"] for row in runs.rows(0)] == ["0", "1"]


def test_a_finished_run_is_never_written_over(runs):
    runs("--trainer.max_epochs=1")
    folder = runs.version(0)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    runs("--trainer.max_epochs=1")
    assert runs.version(1).is_dir()
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_a_first_start_with_nothing_to_resume_says_so(runs, capsys):
    runs("--trainer.max_epochs=1", "--ckpt_path=last")
    assert "no checkpoint under" in capsys.readouterr().out
    assert runs.version(0).is_dir()
