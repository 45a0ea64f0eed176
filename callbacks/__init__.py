"""A Lightning callbacks package; path, import and class_path are the same."""

from callbacks.credit_viewer import CreditViewer
from callbacks.entropy_monitor import EntropyMonitor
from callbacks.entropy_rebound import EntropyCollapseError, EntropyRebound
from callbacks.export_hf import ExportHF
from callbacks.pass_at_k import PassAtK
from callbacks.response_length_monitor import ResponseLengthMonitor
from callbacks.rollout_recorder import RolloutRecorder
from callbacks.run_summary import RunSummary
from callbacks.sample_table import SampleTable
from callbacks.shaping_guard import ShapingError, ShapingGuard
from callbacks.step_histograms import StepHistograms
from callbacks.step_progress_bar import StepProgressBar
from callbacks.throughput import Throughput
from callbacks.weight_sync_probe import WeightSyncProbe

__all__ = [
    "CreditViewer",
    "EntropyCollapseError",
    "EntropyMonitor",
    "EntropyRebound",
    "ExportHF",
    "PassAtK",
    "ResponseLengthMonitor",
    "RolloutRecorder",
    "RunSummary",
    "SampleTable",
    "ShapingError",
    "ShapingGuard",
    "StepHistograms",
    "StepProgressBar",
    "Throughput",
    "WeightSyncProbe",
]
