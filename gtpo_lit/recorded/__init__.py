"""Recorded RL steps: the rollouts of a whole step with their credit, as one parquet file."""

from gtpo_lit.recorded.parquet import FORMAT_VERSION, read_rollouts, write_rollouts
from gtpo_lit.recorded.pieces import TokenPieces
from gtpo_lit.recorded.record import Sampled, record_step, sampled_rows
from gtpo_lit.recorded.recorded_step import RecordedSequence, RecordedStep

__all__ = [
    "FORMAT_VERSION",
    "RecordedSequence",
    "RecordedStep",
    "Sampled",
    "TokenPieces",
    "read_rollouts",
    "record_step",
    "sampled_rows",
    "write_rollouts",
]
