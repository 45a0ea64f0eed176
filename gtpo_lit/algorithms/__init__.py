"""The algorithms, one small class a file; `class_path` in YAML is the registry."""

from gtpo_lit.algorithms.algorithm import Algorithm
from gtpo_lit.algorithms.dapo import DAPO
from gtpo_lit.algorithms.dr_grpo import DrGRPO
from gtpo_lit.algorithms.forking_dapo import ForkingDAPO
from gtpo_lit.algorithms.grpo import GRPO
from gtpo_lit.algorithms.grpo_s import GRPOS
from gtpo_lit.algorithms.gspo import GSPO
from gtpo_lit.algorithms.gtpo import GTPO

__all__ = ["DAPO", "GRPO", "GRPOS", "GSPO", "GTPO", "Algorithm", "DrGRPO", "ForkingDAPO"]
