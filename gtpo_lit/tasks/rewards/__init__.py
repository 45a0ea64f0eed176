"""Rewards: what a response is worth. One class a file."""

from gtpo_lit.tasks.rewards.exact import ExactReward
from gtpo_lit.tasks.rewards.format import FormatReward
from gtpo_lit.tasks.rewards.reasoning_gym_reward import ReasoningGymReward
from gtpo_lit.tasks.rewards.reward import Reward
from gtpo_lit.tasks.rewards.weighted import RewardTerm, Scores, WeightedReward

__all__ = [
    "ExactReward",
    "FormatReward",
    "ReasoningGymReward",
    "Reward",
    "RewardTerm",
    "Scores",
    "WeightedReward",
]
