"""Each point that the paper leaves open is a switch that YAML reaches, with every value."""

import pytest
import yaml

SHARED = {
    "gate": [True, False],
    "entropy_floor": [0.0, 0.01],
    "entropy_clip": [None, [0.2, 0.28]],
    "share_weights": ["entropy", "shuffled", "random", "constant", "inverted"],
}
# The first value of each is the default.
SWITCHES = {
    "GTPO": {
        "normalisation": ["joint", "separate", "anchored"],
        "scope": ["group", "batch"],
        **SHARED,
    },
    "GRPOS": {
        "sequence_ratio": ["arithmetic", "geometric"],
        "entropy_mean": ["arithmetic", "geometric"],
        "scale": ["group", "batch", "none"],
        **SHARED,
    },
    "GSPO": {"sequence_ratio": ["geometric", "arithmetic"]},
}
KL = {"kl_kind": ["k3", "k2", "k1"], "kl_straight_through": [False, True]}


def chosen(options, number):
    """The value number `number` of each option, round and round."""
    return {name: values[number % len(values)] for name, values in options.items()}


def overlay(folder, name, number):
    path = folder / f"{name}_{number}.yaml"
    algorithm = {
        "class_path": f"gtpo_lit.algorithms.{name}",
        "init_args": chosen(SWITCHES[name], number),
    }
    content = {"model": {"algorithm": algorithm, "kl_weight": 0.01, **chosen(KL, number)}}
    path.write_text(yaml.safe_dump(content))
    return path


def reached(algorithm, name):
    value = getattr(algorithm, "ratio" if name == "sequence_ratio" else name)
    if name == "sequence_ratio":
        return value.removeprefix("sequence_")
    return list(value) if isinstance(value, tuple) else value


@pytest.mark.parametrize("name", SWITCHES)
def test_every_value_of_every_switch_is_reached_from_yaml(name, runs, tmp_path):
    from gtpo_lit.cli import GtpoCLI

    most = max(len(values) for values in (SWITCHES[name] | KL).values())
    for number in range(most):
        files = (runs.config, overlay(tmp_path, name, number))
        model = GtpoCLI(args=[f"--config={file}" for file in files], run=False).model
        wanted = chosen(SWITCHES[name], number)
        assert type(model.algorithm).__name__ == name
        assert {option: reached(model.algorithm, option) for option in wanted} == wanted
        assert {option: getattr(model, option) for option in KL} == chosen(KL, number)


@pytest.mark.parametrize("name", SWITCHES)
def test_the_defaults_are_the_first_values(name):
    import gtpo_lit.algorithms

    algorithm = getattr(gtpo_lit.algorithms, name)()
    first = chosen(SWITCHES[name], 0)
    assert {option: reached(algorithm, option) for option in first} == first


@pytest.mark.parametrize("name", SWITCHES)
def test_a_run_trains_with_all_switches_off_their_defaults(name, runs, tmp_path):
    runs(f"--config={overlay(tmp_path, name, 1)}", "--trainer.max_epochs=1")
    row = runs.rows()[1]
    assert float(row["train/gradient/norm"]) > 0
    assert float(row["train/ratio/mean"]) == pytest.approx(1.0, abs=1e-4)
    if name != "GSPO":
        assert float(row["train/shaping/conservation_gap"]) < 1e-4
        # Nearly every entropy lies outside of the interval that the paper prints.
        assert float(row["train/shaping/saturated_fraction"]) > 0.5


@pytest.mark.parametrize(
    ("name", "option", "value"),
    [
        ("GTPO", "normalisation", "both"),
        ("GTPO", "scope", "world"),
        ("GTPO", "share_weights", "none"),
        ("GRPOS", "sequence_ratio", "token"),
        ("GRPOS", "entropy_mean", "harmonic"),
        ("GSPO", "sequence_ratio", "sequence_geometric"),
        (None, "kl_kind", "k4"),
    ],
)
def test_a_value_that_is_no_choice_is_named_before_anything_is_written(
    name, option, value, runs, capsys
):
    model = ["--model.algorithm", f"gtpo_lit.algorithms.{name}"] if name else []
    prefix = "--model.algorithm" if name else "--model"
    with pytest.raises(SystemExit) as stopped:
        runs(*model, f"{prefix}.{option}={value}")
    assert stopped.value.code == 2
    shown = capsys.readouterr().err
    assert option in shown
    assert value in shown
    assert not runs.root.exists()
