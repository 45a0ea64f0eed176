"""`gtpo-lit credit` as it is called."""

import csv
import json
import runpy
from pathlib import Path

import pytest
import torch

from gtpo_lit.algorithms import DAPO, GRPO, GTPO
from gtpo_lit.cli import main
from gtpo_lit.credit_page import credit_page
from gtpo_lit.offline_credit import credit_under, gradient, gradient_cosine
from gtpo_lit.offline_credit.gradient import gradient_norm
from gtpo_lit.policy_spec import PolicySpec
from gtpo_lit.recorded import write_rollouts

made = runpy.run_path(str(Path(__file__).parents[1] / "recorded" / "made_step.py"))


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "step_000010.parquet"
    write_rollouts(made["make_step"](GTPO(alpha2=0.3)), path)
    return path


def credit(file, algorithms, *options):
    main(["credit", "--rollouts", str(file), "--algorithms", algorithms, *map(str, options)])


def test_table_files_and_pages(file, tmp_path, capsys):
    options = ("--csv", tmp_path / "a.csv", "--json", tmp_path / "a.json")
    credit(file, "recorded,dapo", *options, "--pages", tmp_path / "pages", "--tokens", 2)
    screen = capsys.readouterr().out
    assert screen.startswith(
        "RL step 10: 4 sequences (2 right) in 2 groups, 12 tokens, recorded under GTPO\n"
    )
    figures = credit_under(made["make_step"](), GTPO(alpha2=0.3)).figures
    rows = list(csv.DictReader((tmp_path / "a.csv").read_text().splitlines()))
    assert [row["algorithm"] for row in rows] == ["recorded", "dapo"]
    for name, value in figures.items():
        assert float(rows[0][name]) == value
        line = next(text for text in screen.splitlines() if text.startswith("recorded  "))
        assert f"{value:.4f}" in line or f"{value:.1e}" in line
    assert rows[1]["effective_sequences"] == ""
    content = json.loads((tmp_path / "a.json").read_text())
    assert content["algorithms"]["recorded"]["figures"] == figures
    assert content["algorithms"]["recorded"]["settings"]["alpha2"] == 0.3
    assert content["algorithms"]["dapo"]["class_path"] == "gtpo_lit.algorithms.dapo.DAPO"
    assert len(content["algorithms"]["recorded"]["most_credited"]) == 2
    assert (content["step"], content["tokens"]) == (10, 12)
    page = (tmp_path / "pages" / "recorded.html").read_text()
    assert page == credit_page(made["make_step"](GTPO(alpha2=0.3)))
    assert "<title>DAPO, RL step 10</title>" in (tmp_path / "pages" / "dapo.html").read_text()


def test_pieces_on_the_screen_cannot_move_the_cursor(file, capsys):
    credit(file, "gtpo", "--tokens", 12)
    screen = capsys.readouterr().out
    assert screen.isascii()
    assert screen.replace("\n", "").isprintable()
    assert r"'\u202e'" not in screen  # the hole of the mask
    assert r"'\U0001f600'" in screen
    assert "'</script>'" in screen


def test_gradients_where_a_policy_is_given(tmp_path, tiny_qwen2, capsys):
    step = made["make_step"](GTPO(alpha2=0.3))
    policy = PolicySpec(path=str(tiny_qwen2)).load()
    real = step.rollouts
    with torch.no_grad():
        logp, _ = policy(real.input_ids, real.attention_mask, 4, temperature=real.temperature)
    recorded = real.replace(logp_old=torch.where(real.mask, logp + 0.05, 0.0))
    file = tmp_path / "a.parquet"
    write_rollouts(type(step)(**{**vars(step), "rollouts": recorded}), file)
    options = ("--policy", tiny_qwen2, "--rows", 3, "--json", tmp_path / "a.json")
    credit(file, "dapo,grpo", *options)
    screen = capsys.readouterr().out
    assert "gradient 3 of 3: grpo" in screen
    content = json.loads((tmp_path / "a.json").read_text())
    assert content["policy_gap"] == pytest.approx(0.05, abs=1e-5)
    figures = {name: item["figures"] for name, item in content["algorithms"].items()}
    assert figures["dapo"]["gradient_cosine"] == pytest.approx(1.0, abs=1e-9)
    credited = recorded.replace(advantages=GRPO().advantages(recorded))
    grpo, base = (gradient(policy, credited, kind()) for kind in (GRPO, DAPO))
    cosine = gradient_cosine(grpo, base)
    # They weigh long and short responses differently.
    assert 0.5 < cosine < 0.9999
    assert figures["grpo"]["gradient_cosine"] == pytest.approx(cosine, abs=1e-5)
    assert figures["grpo"]["gradient_norm"] == pytest.approx(gradient_norm(grpo), rel=1e-4)
    assert "cos DAPO" in screen


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--algorithms", "gtop"), "--algorithms gtop: there are recorded, gtpo"),
        (("--csv", "no/such/folder/a.csv"), "--csv no/such/folder/a.csv: there is no folder"),
        (("--json", "."), "--json .: there is no folder"),
        (("--pages", "{file}"), "is not a folder"),
        (("--policy", "no/such/model/here"), "--policy: no such model folder"),
        (("--rollouts", "missing.parquet"), "--rollouts: missing.parquet does not exist"),
        (("--rollouts", "{folder}"), "is a folder, not a file of recorded rollouts; name one of"),
    ],
)
def test_slips_end_with_one_line_that_names_the_option(file, capsys, options, message):
    paths = {"file": str(file), "folder": str(file.parent)}
    with pytest.raises(SystemExit) as caught:
        credit(file, "dapo", *(option.format(**paths) for option in options))
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("gtpo-lit: error: ")
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("options", [("--tokens", "0"), ("--rows", "x"), ("--algo", "dapo")])
def test_options_that_do_not_parse_end_with_code_2(file, capsys, options):
    with pytest.raises(SystemExit) as caught:
        credit(file, "dapo", *options)
    assert caught.value.code == 2
    assert options[0] in capsys.readouterr().err


def test_a_policy_with_another_tokenizer_is_refused(tmp_path, tiny_qwen2, capsys):
    step = made["make_step"]()
    ids = step.rollouts.input_ids.clone()
    ids[0, 0] = 64
    file = tmp_path / "a.parquet"
    rollouts = step.rollouts.replace(input_ids=ids)
    write_rollouts(type(step)(**{**vars(step), "rollouts": rollouts}), file)
    with pytest.raises(SystemExit):
        credit(file, "dapo", "--policy", tiny_qwen2)
    assert "has 64 tokens, but the rollouts hold the id 64" in capsys.readouterr().err


def test_help_lists_the_subcommand(capsys):
    for arguments, text in ((["--help"], "credit "), (["credit", "--help"], "+option=value")):
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        assert caught.value.code == 0
        assert text in capsys.readouterr().out
