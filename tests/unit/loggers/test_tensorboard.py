from __future__ import annotations

from pathlib import Path

import pytest
import torch

from gtpo_lit.loggers import RunTensorBoardLogger
from gtpo_lit.run_logger import RunLogger


def events(folder: Path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder), size_guidance={"histograms": 0, "tensors": 0})
    found.Reload()
    return found


def test_histograms_and_tables_are_written(tmp_path: Path) -> None:
    run_logger = RunLogger(str(tmp_path))
    logger = RunTensorBoardLogger()
    logger.follow(run_logger)
    logger.log_histogram(3, "histogram/entropy", torch.tensor([0.0, 1.0, 1.0, 4.0]))
    logger.log_table(3, "samples", ["a"], [["x|y"]])
    logger.save()
    found = events(run_logger.folder.path / "tensorboard")
    (histogram,) = found.Histograms("histogram/entropy")
    value = histogram.histogram_value
    assert (histogram.step, value.num, value.min, value.max, value.sum) == (3, 4, 0.0, 4.0, 6.0)
    (table,) = found.Tensors("samples/text_summary")
    assert table.tensor_proto.string_val[0].decode() == "| a |\n|---|\n| x\\|y |"
    logger.finalize("success")


def test_alone_it_has_no_folder() -> None:
    with pytest.raises(ValueError, match="list a RunLogger first"):
        _ = RunTensorBoardLogger().log_dir
