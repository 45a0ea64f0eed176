"""Which algorithms a list names, and what each slip says."""

import runpy
from pathlib import Path

import pytest

from gtpo_lit.algorithms import DAPO, GRPOS, GTPO, DrGRPO
from gtpo_lit.offline_credit import chosen_algorithms

ROOT = Path(__file__).parents[3]
made = runpy.run_path(str(ROOT / "tests" / "unit" / "recorded" / "made_step.py"))
STEP = made["make_step"](GTPO(alpha2=0.3, gate=False))


def test_names_files_and_class_paths_with_settings(tmp_path, monkeypatch):
    own = tmp_path / "own_credit.py"
    own.write_text("from gtpo_lit.algorithms import DAPO\n\n\nclass Mine(DAPO):\n    pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    file = tmp_path / "a.yaml"
    file.write_text(
        "model:\n  algorithm:\n    class_path: gtpo_lit.algorithms.GRPOS\n"
        "    init_args: {beta2: 0.25, clip_high: '${data.sampling.max_tokens}'}\n"
    )
    text = (
        f"recorded,gtpo,gtpo+alpha2=0.5+entropy_clip=[0.2,0.28],{file},{file}+beta2=1,"
        "own_credit.Mine+dual_clip=null,dr_grpo, grpo_s"
    )
    found = chosen_algorithms(text, STEP)
    assert [item.name for item in found] == [
        "recorded",
        "gtpo",
        "gtpo+alpha2=0.5+entropy_clip=[0.2,0.28]",
        str(file),
        f"{file}+beta2=1",
        "own_credit.Mine+dual_clip=null",
        "dr_grpo",
        "grpo_s",
    ]
    kinds = [type(item.algorithm) for item in found]
    assert kinds[:5] == [GTPO, GTPO, GTPO, GRPOS, GRPOS]
    assert issubclass(kinds[5], DAPO)
    assert kinds[6:] == [DrGRPO, GRPOS]
    algorithms = [item.algorithm for item in found]
    assert algorithms[0].settings == STEP.settings
    assert (algorithms[1].alpha2, algorithms[2].alpha2) == (0.1, 0.5)
    assert tuple(algorithms[2].entropy_clip) == (0.2, 0.28)
    assert (algorithms[3].beta2, algorithms[3].clip_high) == (0.25, 0.28)
    assert algorithms[4].beta2 == 1.0
    assert algorithms[5].dual_clip is None
    assert algorithms[6].max_length == 4  # the longest response


def test_every_shipped_algorithm_config_can_be_named():
    files = sorted((ROOT / "configs" / "algorithm").glob("*.yaml"))
    found = chosen_algorithms(",".join(map(str, files)), STEP)
    short = chosen_algorithms(",".join(file.stem for file in files), STEP)
    assert len(found) == 7
    for one, other in zip(found, short, strict=True):
        assert type(one.algorithm) is type(other.algorithm)
        assert one.algorithm.settings == other.algorithm.settings


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gtop", "--algorithms gtop: there are recorded, gtpo, "),
        ("dapo,,gtpo", "between two commas is missing"),
        ("", "between two commas is missing"),
        ("dapo,gtpo,dapo", "--algorithms: dapo is listed twice"),
        ("gtpo+alpa2=1", r"--algorithms gtpo\+alpa2=1: Option 'alpa2' is not accepted"),
        ("gtpo+alpha2", "'alpha2' is no option=value"),
        ("gtpo+alpha2=-1", "algorithm.alpha1 and algorithm.alpha2 must be at least 0"),
        ("gtpo+gate=maybe", "Expected a <class 'bool'>. Got value: maybe"),
        ("no_such_module.Idea", "No module named 'no_such_module'"),
        ("torch.nn.Linear", "does not correspond to a subclass of Algorithm"),
        ("missing.yaml", "--algorithms missing.yaml: No such file"),
    ],
)
def test_slips_name_the_option_and_the_item(text, message):
    with pytest.raises(ValueError, match=message):
        chosen_algorithms(text, STEP)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "has no model.algorithm"),
        ("model: {algorithm: {init_args: {}}}", "has no model.algorithm with a class_path"),
        ("model: [", "no YAML"),
        ("model: {algorithm: {class_path: a.B, init_args: [1]}}", "init_args of model.algorithm"),
    ],
)
def test_files_without_an_algorithm_say_so(tmp_path, content, message):
    file = tmp_path / "a.yaml"
    file.write_text(content)
    with pytest.raises(ValueError, match=message):
        chosen_algorithms(str(file), STEP)
