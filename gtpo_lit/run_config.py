"""The config in a run's folder: what was asked for, ready to be given again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.cli import SaveConfigCallback


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Where a run is kept: ``<root>/<name>/version_<N>``.

    Args:
        root: folder of all runs.
        name: name of this run; its versions are counted under it.
        grace_seconds: on SIGTERM, finish the RL step if its rest is thought to take no
            longer; else stop at once. Set it to what the scheduler leaves between SIGTERM
            and SIGKILL, less some seconds.
    """

    root: str = "runs"
    name: str = "run"
    grace_seconds: float = 0.0

    def __post_init__(self) -> None:
        """Refuse names that are no folder below the root.

        Raises:
            ValueError: naming option and value.
        """
        if not 0 <= self.grace_seconds < float("inf"):
            raise ValueError(
                f"run.grace_seconds must be at least 0 and finite, got {self.grace_seconds}"
            )
        if not self.root:
            raise ValueError("run.root must not be empty")
        if Path(self.name).is_absolute() or not {"..", ""}.isdisjoint(self.name.split("/")):
            raise ValueError(f"run.name = {self.name!r} must name a folder below run.root")


class SaveRunConfig(SaveConfigCallback):
    """Saves `config.yaml` into the run's folder, once, by rank 0.

    A run that goes on in its folder keeps its first config; one that differs from all there is
    saved beside it as `config.resume-<N>.yaml`. Without a logger there is no folder, and nothing
    is saved.
    """

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Save, unless it was done."""
        if self.already_saved or not trainer.loggers:
            return
        folder = trainer.log_dir  # all ranks take part in finding it
        assert folder is not None
        if trainer.is_global_zero:
            text = self.parser.dump(self.config, skip_unset=False)
            write_config(Path(folder), self.config_filename, text)
        self.already_saved = True


def write_config(folder: Path, filename: str, text: str) -> Path:
    """Write a config under the first free name, or leave it if it is there.

    Returns:
        The file that holds it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path, number = folder / filename, 0
    while path.exists():
        if _meaning(path.read_text(encoding="utf-8")) == _meaning(text):
            return path
        number += 1
        path = folder / f"{Path(filename).stem}.resume-{number}.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def _meaning(text: str) -> dict[str, Any]:
    # Where a run goes on from is no part of what it is.
    return {name: value for name, value in yaml.safe_load(text).items() if name != "ckpt_path"}
