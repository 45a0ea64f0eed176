"""The trained policy as a Hugging Face folder."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any, Literal

from lightning.pytorch import Callback, LightningModule, Trainer

from gtpo_lit.run_logger import find_run_logger

_EXPORT = re.compile(r"step=(\d+)")
_BEST = re.compile(r"best-step=(\d+)")


class ExportHF(Callback):
    """Writes folders that `AutoModelForCausalLM.from_pretrained` and `AutoTokenizer` load.

    `export/step=NNNN` of the run folder holds the policy after NNNN RL steps: always at the end of
    `fit`, and in between by `every`. With `best`, `export/best-step=NNNN` holds the policy of the
    best validation so far, and the one before it goes. Weights keep their dtype, so the loaded
    model gives the same logits. A folder is written under another name and renamed when it is
    complete; rank zero writes. Where weights are sharded over ranks it gathers them, one by one, in
    the memory of its CPU.
    """

    def __init__(
        self,
        every: int | None = None,
        keep_last: int | None = None,
        best: str | None = None,
        mode: Literal["max", "min"] = "max",
        folder: str | None = None,
    ) -> None:
        """Check the options.

        Args:
            every: RL steps between exports; None exports at the end only.
            keep_last: number of newest `step=NNNN` to keep; None keeps all.
            best: validation metric, such as `val/chains/pass@1`, whose best policy is kept.
            mode: whether more or less of it is better.
            folder: where to write; `export/` of the run folder if None.

        Raises:
            ValueError: naming option and value.
        """
        for name, value in (("every", every), ("keep_last", keep_last)):
            if value is not None and value < 1:
                raise ValueError(f"ExportHF: {name} must be at least 1 or null, got {value}")
        if mode not in ("max", "min"):
            raise ValueError(f"ExportHF: mode must be max or min, got {mode!r}")
        if best is not None and not best.startswith("val/"):
            raise ValueError(f"ExportHF: best must be a metric val/<set>/..., got {best!r}")
        self.every = every
        self.keep_last = keep_last
        self.best = best
        self.mode = mode
        self.folder = folder
        self.best_value: float | None = None
        """The best value of `best` so far, the validation before training left out."""

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Check that there is a place to write to, before any weights load.

        Raises:
            ValueError: if the run keeps no folder and none is given.
        """
        if stage == "fit" and self.folder is None and find_run_logger(trainer) is None:
            raise ValueError(
                "ExportHF: folder = null, and the run keeps no folder of its own "
                "(trainer.logger = false); give one"
            )

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Keep the policy if its validation is the best so far.

        Raises:
            ValueError: if `best` is none of the metrics, when the first validation ends.
        """
        if self.best is None or trainer.state.fn != "fit":
            return
        value = trainer.callback_metrics.get(self.best)
        if value is None:
            known = sorted(name for name in trainer.callback_metrics if name.startswith("val/"))
            raise ValueError(f"ExportHF: best = {self.best!r} is none of {', '.join(known)}")
        if trainer.sanity_checking:
            return
        # One rank's number decides for all.
        number = float(trainer.strategy.broadcast(float(value)))
        sign = 1 if self.mode == "max" else -1
        if self.best_value is None or sign * number > sign * self.best_value:
            self.best_value = number
            self._export(trainer, pl_module, f"best-step={trainer.current_epoch + 1:04d}")
            self._remove(trainer, _BEST, keep=1)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Export every so many RL steps."""
        step = trainer.current_epoch + 1
        if self.every is not None and step % self.every == 0 and step != trainer.max_epochs:
            self._export(trainer, pl_module, f"step={step:04d}")
            self._remove(trainer, _EXPORT, keep=self.keep_last)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Export the last policy; an exception in `fit` does not get here."""
        self._export(trainer, pl_module, f"step={trainer.current_epoch:04d}")
        self._remove(trainer, _EXPORT, keep=self.keep_last)

    def state_dict(self) -> dict[str, Any]:
        """The best value, so that a resumed run knows what to beat."""
        return {"best_value": self.best_value}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from there."""
        self.best_value = state_dict["best_value"]

    def _export(self, trainer: Trainer, pl_module: Any, name: str) -> None:
        target = self._root(trainer) / name
        if trainer.is_global_zero:
            replace_folder(target, pl_module.policy.export)
        elif pl_module.policy.is_sharded:
            # Putting sharded weights together takes all ranks; this one writes nothing.
            pl_module.policy.export(target)
        trainer.strategy.barrier("ExportHF")

    def _remove(self, trainer: Trainer, pattern: re.Pattern[str], *, keep: int | None) -> None:
        if keep is None or not trainer.is_global_zero:
            return
        root = self._root(trainer)
        found = [(int(match[1]), entry) for entry in root.iterdir()
                 if (match := pattern.fullmatch(entry.name))]  # fmt: skip
        for _, entry in sorted(found)[:-keep]:
            shutil.rmtree(entry)

    def _root(self, trainer: Trainer) -> Path:
        if self.folder is not None:
            return Path(self.folder)
        logger = find_run_logger(trainer)
        assert logger is not None
        return logger.folder.exports


def replace_folder(target: Path, write: Any) -> None:
    """Let `write` fill a folder that takes the place of `target` once it is complete.

    Args:
        target: a folder, or nothing yet; what a stopped process left there goes.
        write: is called with the path of a folder that it has to make.
    """
    new = target.with_name(f".{target.name}.{os.getpid()}.new")
    old = target.with_name(f".{target.name}.{os.getpid()}.old")
    for leftover in (new, old):
        shutil.rmtree(leftover, ignore_errors=True)
    try:
        write(new)
        if target.exists():
            os.replace(target, old)
        os.replace(new, target)
    finally:
        for leftover in (new, old):
            shutil.rmtree(leftover, ignore_errors=True)
