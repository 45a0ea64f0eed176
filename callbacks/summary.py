"""What a run came to: summary.json, curves.png, and one last line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

from lightning.pytorch import Callback, LightningModule, Trainer

from callbacks.pass_at_k import PassAtK
from gtpo_lit.plots import draw_curves


class RunSummary(Callback):
    """At the end of a fit, writes `summary.json` and `curves.png` into the run's folder.

    The last line it prints is ``val/<set>/pass@1: <before> -> <after>``, the first validation set
    last, also right after a resume.
    """

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Settle on the run's folder, the same on all ranks."""
        self._folder = Path(trainer.log_dir or trainer.default_root_dir)

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Write and print once everything else has been logged."""
        if not trainer.is_global_zero:
            return
        validation = next(
            (item for item in cast(Any, trainer).callbacks if isinstance(item, PassAtK)), None
        )
        summary = summarise(trainer, validation)
        partial = self._folder / "summary.partial"
        partial.write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
        partial.replace(self._folder / "summary.json")
        if (self._folder / "metrics.csv").is_file():
            draw_curves(self._folder, self._folder / "curves.png")
        print(f"run folder: {self._folder}")
        for name in sorted(summary["val"]["after"], reverse=True):
            if name.endswith("/pass@1"):
                before, after = (summary["val"][when].get(name) for when in ("before", "after"))
                print(f"{name}: {_shown(before)} -> {_shown(after)}", flush=True)


def summarise(trainer: Trainer, validation: PassAtK | None) -> dict[str, Any]:
    """The summary as plain values."""
    finished = trainer.current_epoch >= (trainer.max_epochs or 0)
    return {
        "finished": finished,
        "rl_steps": trainer.current_epoch,
        "optimiser_steps": trainer.global_step,
        "val": {
            "before": dict(validation.before) if validation else {},
            "after": dict(validation.latest) if validation else {},
            "after_step": validation.latest_step if validation else None,
        },
    }


def _shown(value: float | None) -> str:
    return "?" if value is None else f"{value:.4f}"
