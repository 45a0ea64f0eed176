"""Gradients of all chosen algorithms at one policy's weights, next to DAPO's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from gtpo_lit.algorithms import DAPO
from gtpo_lit.functional.masked import masked_mean
from gtpo_lit.offline_credit.chosen import Chosen
from gtpo_lit.offline_credit.comparison import Credit
from gtpo_lit.offline_credit.gradient import gradient, gradient_cosine, gradient_norm
from gtpo_lit.policy_spec import OPTION, PolicySpec
from gtpo_lit.recorded import RecordedStep
from gtpo_lit.rollout.scoring import score_logprobs


def check_policy(path: str, step: RecordedStep) -> None:
    """Refuse, before weights load, a model that cannot read the step's tokens.

    Raises:
        ValueError: naming the option.
    """
    spec = PolicySpec(path=path)
    try:
        spec.check()
        rows = spec.load_config().get_text_config().vocab_size
    except ValueError as error:
        raise ValueError(str(error).replace(OPTION, "--policy")) from None
    highest = int(step.rollouts.input_ids.max())
    if highest >= rows:
        raise ValueError(
            f"--policy {path} has {rows} tokens, but the rollouts hold the id {highest}: they are "
            "of a model with another tokenizer"
        )


def add_gradients(
    path: str,
    step: RecordedStep,
    chosen: Sequence[Chosen],
    credits: Mapping[str, Credit],
    *,
    rows: int,
    say: Callable[[str], None],
) -> float:
    """Add `gradient_cosine` (to DAPO with its defaults) and `gradient_norm` to the figures.

    Args:
        path: of the policy.
        step: the recorded step.
        chosen: the algorithms.
        credits: their credit by name, whose figures are added to.
        rows: sequences in one forward.
        say: is told how far it has come.

    Returns:
        Mean abs difference of the policy's log-probs and the recorded ones, in nats.
    """
    policy = PolicySpec(path=path).load()
    rollouts, dapo = step.rollouts, DAPO()
    logp = score_logprobs(policy, rollouts, rows_per_forward=rows)
    gap = float(masked_mean((logp - rollouts.logp_old).double().abs(), rollouts.mask))
    say(f"gradient 1 of {len(chosen) + 1}: DAPO, to compare with")
    base = gradient(
        policy,
        rollouts.replace(advantages=dapo.advantages(rollouts)),
        dapo,
        rows_per_forward=rows,
    )
    for number, item in enumerate(chosen, start=2):
        say(f"gradient {number} of {len(chosen) + 1}: {item.name}")
        credit = credits[item.name]
        found = gradient(policy, credit.step.rollouts, item.algorithm, rows_per_forward=rows)
        credit.figures["gradient_cosine"] = gradient_cosine(found, base)
        credit.figures["gradient_norm"] = gradient_norm(found)
    return gap
