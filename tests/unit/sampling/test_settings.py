from __future__ import annotations

import pytest

from gtpo_lit.sampling.settings import check_settings, check_training_settings
from gtpo_lit.types import SamplingSettings


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"temperature": -0.1}, "temperature must be at least 0, got -0.1"),
        ({"temperature": float("nan")}, "temperature must be at least 0, got nan"),
        ({"top_p": 0.0}, r"top_p must be in \(0, 1\], got 0.0"),
        ({"top_p": 1.1}, r"top_p must be in \(0, 1\], got 1.1"),
        ({"top_k": -1}, "top_k must be at least 0, got -1"),
        ({"min_p": 1.5}, r"min_p must be in \[0, 1\], got 1.5"),
        ({"max_tokens": 0}, "max_tokens must be at least 1, got 0"),
    ],
)
def test_values_out_of_range_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        check_settings(SamplingSettings(**changes))
    with pytest.raises(ValueError, match=message):
        check_training_settings(SamplingSettings(**changes))


@pytest.mark.parametrize("changes", [{"top_p": 0.9}, {"top_k": 5}, {"min_p": 0.1}])
def test_cuts_are_for_evaluation_unless_asked_for_by_name(changes):
    settings = SamplingSettings(**changes)
    check_settings(settings)
    check_training_settings(settings, allow_biased_sampling=True)
    ((name, value),) = changes.items()
    with pytest.raises(ValueError, match=f"{name}={value} .*allow_biased_sampling"):
        check_training_settings(settings)


def test_greedy_is_for_evaluation():
    check_settings(SamplingSettings(temperature=0))
    with pytest.raises(ValueError, match="temperature must be above 0 in training, got 0"):
        check_training_settings(SamplingSettings(temperature=0), allow_biased_sampling=True)
    check_training_settings(SamplingSettings(temperature=0.6))
