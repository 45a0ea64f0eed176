"""Credit of recorded rollouts under any algorithm, without training."""

from gtpo_lit.offline_credit.chosen import Chosen, chosen_algorithms
from gtpo_lit.offline_credit.comparison import Credit, credit_under
from gtpo_lit.offline_credit.extremes import CreditedToken, extreme_tokens
from gtpo_lit.offline_credit.gradient import gradient, gradient_cosine

__all__ = [
    "Chosen",
    "Credit",
    "CreditedToken",
    "chosen_algorithms",
    "credit_under",
    "extreme_tokens",
    "gradient",
    "gradient_cosine",
]
