r"""Responses as a policy in training gives them: right, wrong, empty, degenerate and hostile."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

from benchmarks.answers.references import Pair

HANGS = 20
_REASONING = (
    "Let me think about what is asked. We write the condition as an equation and solve it. ",
    "Adding the two lines gives $3x + 12 = 48$, therefore $x = 12$. ",
    r"A first guess would be \boxed{17}, but that leaves out the second case. ",
    r"With $\frac{a}{b} = \sqrt{2}$ the left side grows, so this cannot be. ",
    "Checking the result once more, everything fits. ",
)


class Response(NamedTuple):
    """A response, what it is judged by, and the score that it must get."""

    kind: str
    completion: str
    reference: str
    wanted: float


def _tower(draw: random.Random) -> str:
    base = draw.randint(2, 99)
    return draw.choice(
        (
            rf"\boxed{{{base}^{{{base}^{{{base}^{{{base}}}}}}}}}",
            rf"\boxed{{\dfrac{{{base}^{{({base}^{{({base}^{{({base}^{base})}}-4)}})}}-5}}{{16}}}}",
            rf"\boxed{{((({base}!)!)!)!}}",
            rf"\boxed{{{base}**{base}**{base}**{base}}}",
        )
    )


def _digits(draw: random.Random) -> str:
    return rf"\boxed{{{str(draw.randint(10, 99)) * 50_000}}}"


def _braces(draw: random.Random) -> str:
    depth = draw.choice((50, 400, 20_000))
    opening = draw.choice(("{", "(", r"\frac{", r"\sqrt{", r"\boxed{", r"\left(", "x^{"))
    closing = draw.choice((")", "}", ""))
    return rf"\boxed{{{opening * depth}1{closing * depth}}}"


def _emoji(draw: random.Random) -> str:
    signs = "\U0001f600\U0001f4a9\u0663\u06f5\uff15\u200b\u202e\u0000\ud7ff\u2764\ufe0f"
    return rf"\boxed{{{''.join(draw.choices(signs, k=draw.choice((3, 500, 5000))))}}}"


def _half_latex(draw: random.Random) -> str:
    whole = (
        r"\boxed{\left(\frac{\sqrt{13}}{2^{x+1}}, \begin{pmatrix} 1 & 2 \\ 3 \end{pmatrix}\right)}"
    )
    cut = whole[: draw.randint(8, len(whole) - 1)]
    return cut + draw.choice(("", "}", "}}", "}}}}", "\\", "$", r"\end{"))


HOSTILE: dict[str, Callable[[random.Random], str]] = {
    "power tower": _tower,
    "100 kB of digits": _digits,
    "nested braces": _braces,
    "emoji": _emoji,
    "half LaTeX": _half_latex,
}


def _degenerate(draw: random.Random) -> str:
    return draw.choice(
        (
            "", " ", "\n\n", r"\boxed{}", r"\boxed{ }", "I do not know.", "<think>", "</think>",
            "the the the " * 2000, "?" * 4000, r"\boxed{\boxed{}}", r"\boxed{.}", r"\boxed{$$}",
            r"<think>\boxed{1}",
        )
    )  # fmt: skip


def _hanging(number: int) -> tuple[str, str]:
    """A response and a reference that math-verify would compare for ever."""
    power = 7 + number
    return (
        rf"\boxed{{\int_0^1 \tan(\sin(x^{{x+{power}}})) dx}}",
        rf"\int_0^1 \sin(\tan(x^{{x+{power}}})) dx",
    )


def make_responses(
    right: Sequence[Pair], wrong: Sequence[Pair], number: int, *, hangs: int = HANGS, seed: int = 0
) -> list[Response]:
    """60 % right, 30 % wrong, 5 % empty or degenerate, 5 % hostile, in a random order.

    Args:
        right: answers to take the right ones from.
        wrong: answers to take the wrong ones from.
        number: of responses, in twenties.
        hangs: how many of the hostile ones never come to an end.
        seed: of all choices.
    """
    draw = random.Random(seed)
    part = number // 20
    found = [_written("right", draw.choice(right), 1.0, draw) for _ in range(12 * part)]
    found += [_written("wrong", draw.choice(wrong), 0.0, draw) for _ in range(6 * part)]
    for _ in range(part):
        reference = draw.choice(wrong).reference
        found.append(Response("degenerate", _degenerate(draw), reference, 0.0))
    for place in range(part):
        if place < hangs:
            found.append(Response("hanging", *_hanging(place), 0.0))
        else:
            kind = draw.choice(list(HOSTILE))
            found.append(Response(kind, HOSTILE[kind](draw), draw.choice(wrong).reference, 0.0))
    draw.shuffle(found)
    return found


def _written(kind: str, pair: Pair, wanted: float, draw: random.Random) -> Response:
    reasoning = "".join(draw.choices(_REASONING, k=draw.randint(1, 40)))
    thought = f"<think>{reasoning}</think>" if draw.random() < 0.3 else reasoning
    ending = rf"The answer is \boxed{{{pair.answer}}}."
    return Response(kind, f"{thought}\n{ending}", pair.reference, wanted)
