"""Reinforcement learning of LLM reasoning with entropy-based credit (GTPO, GRPO-S)."""

__version__ = "0.1.0"
