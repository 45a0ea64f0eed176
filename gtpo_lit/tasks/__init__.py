"""Tasks: text in, score out. Problem sources, prompts, answers and rewards; no tensors."""

from gtpo_lit.tasks.chains import ChainSource
from gtpo_lit.tasks.columns import ColumnMap
from gtpo_lit.tasks.dataset_source import DatasetSource
from gtpo_lit.tasks.mixture import MixtureSource
from gtpo_lit.tasks.prompt_limit import LongPrompts, fit_prompts
from gtpo_lit.tasks.prompts import Example, PromptTemplate
from gtpo_lit.tasks.reasoning_gym_source import ReasoningGymSource
from gtpo_lit.tasks.rewards import (
    ExactReward,
    FormatReward,
    ReasoningGymReward,
    Reward,
    RewardTerm,
    Scores,
    WeightedReward,
)
from gtpo_lit.tasks.source import ProblemSource, overlap, walk

__all__ = [
    "ChainSource",
    "ColumnMap",
    "DatasetSource",
    "ExactReward",
    "Example",
    "FormatReward",
    "LongPrompts",
    "MixtureSource",
    "ProblemSource",
    "PromptTemplate",
    "ReasoningGymReward",
    "ReasoningGymSource",
    "Reward",
    "RewardTerm",
    "Scores",
    "WeightedReward",
    "fit_prompts",
    "overlap",
    "walk",
]
