"""Demonstrations of two strategies for arithmetic chains: one quick and bad, one slow and good."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Mixture:
    """How demonstrations are mixed."""

    direct_share: float = 0.7
    """Share of responses that give an answer at once: a digit drawn evenly, right by chance."""
    slip_rate: float = 0.03
    """Chance that a running sum is wrong; the steps after it go on from there."""
    modulus: int = 10
    """Sums are taken modulo this."""

    def response(self, question: str, generator: random.Random) -> str:
        """One response to a question such as ``3+4+8=``.

        Example:
            >>> Mixture(direct_share=0, slip_rate=0).response("3+4+8=", random.Random(0))
            '3+4=7;7+8=5'
        """
        if generator.random() < self.direct_share:
            return str(generator.randrange(self.modulus))
        digits = [int(digit) for digit in question.rstrip("=").split("+")]
        running, steps = digits[0], []
        for digit in digits[1:]:
            total = (running + digit) % self.modulus
            if generator.random() < self.slip_rate:
                total = (total + generator.randrange(1, self.modulus)) % self.modulus
            steps.append(f"{running}+{digit}={total}")
            running = total
        return ";".join(steps)
