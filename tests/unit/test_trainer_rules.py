"""Which trainer options leave RL steps whole."""

from __future__ import annotations

import inspect
from datetime import timedelta

import pytest
from lightning.pytorch import Trainer

from gtpo_lit.trainer_rules import ALLOWED, TRAINER_DEFAULTS, refuse_broken_steps


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("use_distributed_sampler", True),
        ("limit_train_batches", 1),
        ("limit_train_batches", 0.5),
        ("overfit_batches", 1),
        ("overfit_batches", 0.5),
        ("val_check_interval", 1),
        ("val_check_interval", 0.5),
        ("reload_dataloaders_every_n_epochs", 1),
        ("max_steps", 10),
        ("max_time", timedelta(minutes=1)),
        ("fast_dev_run", True),
        ("fast_dev_run", 1),
        ("barebones", True),
        ("max_epochs", 0),
        ("max_epochs", -1),
        ("max_epochs", None),
    ],
)
def test_options_that_break_a_step_are_refused_by_name(option, value):
    with pytest.raises(ValueError) as refused:  # noqa: PT011 (compared below)
        refuse_broken_steps({**TRAINER_DEFAULTS, option: value})
    assert str(refused.value).startswith(f"trainer.{option} = {value!r}")


def test_defaults_and_whole_steps_are_taken():
    refuse_broken_steps({})
    refuse_broken_steps(TRAINER_DEFAULTS)
    for option, (allowed, _) in ALLOWED.items():
        for value in allowed:
            refuse_broken_steps({option: value})


def test_every_rule_names_an_option_of_the_trainer_and_allows_what_runs_have():
    options = inspect.signature(Trainer.__init__).parameters
    assert set(ALLOWED) | set(TRAINER_DEFAULTS) <= set(options)
    for option, (allowed, _) in ALLOWED.items():
        assert TRAINER_DEFAULTS.get(option, options[option].default) in allowed
