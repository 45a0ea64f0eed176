"""A page of a step's tokens, coloured by entropy, shaped reward, advantage or log-ratio."""

from __future__ import annotations

from pathlib import Path

from callbacks.rollout_recorder import RolloutRecorder
from gtpo_lit.credit_page import write_credit_page
from gtpo_lit.recorded import RecordedStep

__all__ = ["CreditViewer"]


class CreditViewer(RolloutRecorder):
    """Records as `RolloutRecorder` does, and writes `rollouts/step_000050.html` beside the file.

    The page opens in any browser, needs no network, and shows the step's groups side by side with
    the numbers of every token; docs/credit_viewer.md tells how to read it. Use it in the place of a
    `RolloutRecorder`, or beside one that records more often.
    `python -m callbacks.credit_viewer FILE` makes the page of any recorded step.
    """

    def __init__(self, every_n_steps: int = 50) -> None:
        """Check the options.

        Args:
            every_n_steps: record and draw the RL steps that this divides.

        Raises:
            ValueError: if it is below 1.
        """
        super().__init__(every_n_steps)

    def keep(self, recorded: RecordedStep, path: Path) -> None:
        """Write both files."""
        super().keep(recorded, path)
        write_credit_page(recorded, path.with_suffix(".html"))
