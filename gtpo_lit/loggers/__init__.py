"""Trackers beside the run folder, which count RL steps as the run does."""

from gtpo_lit.loggers.mlflow import RunMLFlowLogger
from gtpo_lit.loggers.tensorboard import RunTensorBoardLogger
from gtpo_lit.loggers.wandb import RunWandbLogger

__all__ = ["RunMLFlowLogger", "RunTensorBoardLogger", "RunWandbLogger"]
