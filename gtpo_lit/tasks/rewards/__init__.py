"""Rewards: what a response is worth. One class a file."""

from gtpo_lit.tasks.pool import Limits
from gtpo_lit.tasks.rewards.choice import ChoiceReward
from gtpo_lit.tasks.rewards.exact import ExactReward
from gtpo_lit.tasks.rewards.format import FormatReward
from gtpo_lit.tasks.rewards.function_reward import FunctionReward
from gtpo_lit.tasks.rewards.length import LengthReward
from gtpo_lit.tasks.rewards.math_reward import MathReward
from gtpo_lit.tasks.rewards.numeric import NumericReward
from gtpo_lit.tasks.rewards.pooled import PooledReward
from gtpo_lit.tasks.rewards.reasoning_gym_reward import ReasoningGymReward
from gtpo_lit.tasks.rewards.reward import Marks, Reward
from gtpo_lit.tasks.rewards.weighted import RewardTerm, Scores, WeightedReward, chosen_reward

__all__ = [
    "ChoiceReward",
    "ExactReward",
    "FormatReward",
    "FunctionReward",
    "LengthReward",
    "Limits",
    "Marks",
    "MathReward",
    "NumericReward",
    "PooledReward",
    "ReasoningGymReward",
    "Reward",
    "RewardTerm",
    "Scores",
    "WeightedReward",
    "chosen_reward",
]
