from __future__ import annotations

import dataclasses

import pytest

from gtpo_lit.rollout.evaluation_sets import EvaluationSets, sets_for_test
from gtpo_lit.tasks import ChainSource
from gtpo_lit.types import SamplingSettings

SOURCE = ChainSource(split="validation", size=2)
WARM, COLD = SamplingSettings(temperature=1.0), SamplingSettings(temperature=0.0)


def validation(name: str = "chains") -> EvaluationSets:
    return EvaluationSets(
        option="data.validation",
        sources={name: SOURCE},
        sampling=WARM,
        samples=4,
        stream="validation",
    )


def test_without_sets_of_its_own_a_test_repeats_the_validation() -> None:
    assert sets_for_test({}, validation(), sampling=None, samples=None) == validation()


def test_what_is_given_for_a_test_replaces_what_validation_has() -> None:
    own = sets_for_test({"final": SOURCE}, validation(), sampling=COLD, samples=1)
    assert (own.option, own.stream, list(own.sources)) == ("data.test", "test", ["final"])
    assert (own.sampling, own.samples) == (COLD, 1)
    other = sets_for_test(None, validation(), sampling=COLD, samples=None)
    assert (other.option, other.stream) == ("data.validation", "validation")
    assert (other.sampling, other.samples) == (COLD, 4)


@pytest.mark.parametrize("name", ["a/b", "", "..", "a b", ".hidden", "\u00e9"])
def test_a_name_that_is_no_part_of_a_path_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="data.validation has a set named"):
        validation(name)
    assert list(validation("aime_2024-I.v2").sources) == ["aime_2024-I.v2"]


def test_an_evaluation_of_nothing_is_refused() -> None:
    validation().require("validate")
    none = dataclasses.replace(validation(), sources={})
    none.require("fit")
    with pytest.raises(ValueError, match="data.validation holds no set: there is nothing to test"):
        none.require("test")
