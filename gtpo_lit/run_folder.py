"""The folder of one run: its layout, its checkpoints and its summary.

``<root>/<name>/version_N/`` holds ``config.yaml``, ``metrics.csv``, ``timing.csv``,
``checkpoints/step=NNNN.ckpt``, ``rollouts/``, ``evaluation/``, ``tensorboard/``, ``curves.png``
and ``summary.json``. Steps are RL steps; row and checkpoint k describe the state after k of them.
"""

from __future__ import annotations

import json
import os
import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gtpo_lit.metrics_csv import read_metrics, write_atomically
from gtpo_lit.torn_checkpoint import META, why_torn

__all__ = ["RunFolder", "checkpoint_step", "last_checkpoint", "read_metrics", "version_of"]

_CHECKPOINT = re.compile(r"step=(\d+)\.ckpt")
_VERSION = re.compile(r"version_(\d+)")


@dataclass(frozen=True, kw_only=True)
class RunFolder:
    """Paths of one run, and how far it had come when this process took it over."""

    path: Path
    start_step: int = 0
    """RL steps completed before this process started; 0 for a fresh run."""
    in_place: bool = False
    """Whether this process goes on with a folder that an earlier one began."""

    @property
    def config(self) -> Path:
        """The resolved options of the run."""
        return self.path / "config.yaml"

    @property
    def metrics(self) -> Path:
        """One row an RL step, reproducible to the last digit."""
        return self.path / "metrics.csv"

    @property
    def timing(self) -> Path:
        """Seconds and bytes, which differ from run to run."""
        return self.path / "timing.csv"

    @property
    def checkpoints(self) -> Path:
        """Where `step=NNNN.ckpt` lie."""
        return self.path / "checkpoints"

    @property
    def rollouts(self) -> Path:
        """Where sampled completions are kept."""
        return self.path / "rollouts"

    @property
    def evaluation(self) -> Path:
        """Where `validate` and `test` keep their tables and samples."""
        return self.path / "evaluation"

    @property
    def exports(self) -> Path:
        """Where `callbacks.ExportHF` puts policies as Hugging Face folders."""
        return self.path / "export"

    @property
    def curves(self) -> Path:
        """The picture drawn at the end."""
        return self.path / "curves.png"

    @property
    def summary(self) -> Path:
        """Results of the run as JSON."""
        return self.path / "summary.json"

    @property
    def finished(self) -> bool:
        """Whether the run says of itself that it reached its last RL step."""
        return bool(self.read_summary().get("finished", False))

    def read_summary(self) -> dict[str, Any]:
        """The content of `summary.json`; empty if there is none, or it is not an object."""
        if not self.summary.is_file():
            return {}
        try:
            content = json.loads(self.summary.read_text(encoding="utf-8"))
        except json.JSONDecodeError:  # not written by us: we replace the file as a whole
            return {}
        return content if isinstance(content, dict) else {}

    def write_summary(self, content: dict[str, Any]) -> None:
        """Replace `summary.json` as a whole."""
        self.write_json(self.summary.name, content)

    def write_json(self, name: str, content: dict[str, Any]) -> Path:
        """Replace a file of the folder as a whole.

        Raises:
            ValueError: for NaN and infinities, which are no JSON.
        """
        text = json.dumps(content, indent=2, allow_nan=False) + "\n"
        write_atomically(self.path / name, text)
        return self.path / name

    def checkpoint(self, step: int) -> Path:
        """The path of the checkpoint after `step` RL steps."""
        return self.checkpoints / f"step={step:04d}.ckpt"

    def checkpoint_steps(self) -> list[int]:
        """The RL steps that have a checkpoint, in increasing order."""
        if not self.checkpoints.is_dir():
            return []
        found = (_CHECKPOINT.fullmatch(entry.name) for entry in self.checkpoints.iterdir())
        return sorted(int(match[1]) for match in found if match)

    def newest_checkpoint(self) -> Path | None:
        """The whole checkpoint with the most RL steps, None if there is none.

        A torn one, as a disk or another program may leave it, is passed over with a warning.
        """
        for step in reversed(self.checkpoint_steps()):
            path = self.checkpoint(step)
            reason = why_torn(path)
            if reason is None:
                return path
            warnings.warn(f"checkpoint {path} {reason}: it is passed over", stacklevel=2)
        return None


def last_checkpoint(root: str | os.PathLike[str], name: str) -> Path | None:
    """The newest checkpoint of the newest version that has one, None if there is none."""
    parent = Path(root) / name
    folders = {version_of(entry): entry for entry in parent.glob("version_*")}
    for number in sorted((n for n in folders if n is not None), reverse=True):
        newest = RunFolder(path=folders[number]).newest_checkpoint()
        if newest is not None:
            return newest
    return None


def checkpoint_step(path: str | os.PathLike[str]) -> int:
    """How many RL steps were completed when a checkpoint was written.

    The name `step=NNNN.ckpt` tells; under any other name the file is read.

    Raises:
        ValueError: if the file does not say.
    """
    path = Path(path)
    match = _CHECKPOINT.fullmatch(path.resolve().name)
    if match:
        return int(match[1])
    import torch

    file = path / META if path.is_dir() else path
    content = torch.load(file, map_location="cpu", mmap=True, weights_only=True)
    if "rl_step" in content:
        return int(content["rl_step"])
    if "epoch" in content:
        return int(content["epoch"]) + 1
    raise ValueError(f"ckpt_path={str(path)!r} holds neither 'rl_step' nor 'epoch'")


def version_of(folder: Path) -> int | None:
    """N of a folder `version_N`, None for any other."""
    match = _VERSION.fullmatch(folder.name)
    return int(match[1]) if match else None
