"""Lightning callbacks; path, import and `class_path` are the same: `callbacks.EntropyMonitor`."""

from callbacks.entropy_monitor import EntropyMonitor
from callbacks.pass_at_k import PassAtK
from callbacks.progress import StepProgressBar
from callbacks.response_length import ResponseLengthMonitor
from callbacks.summary import RunSummary

__all__ = ["EntropyMonitor", "PassAtK", "ResponseLengthMonitor", "RunSummary", "StepProgressBar"]
