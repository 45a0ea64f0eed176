"""Curves of a run: the numbers first, then the picture.

`panels` returns exactly what `draw_curves` draws, so that a notebook can draw it another way and
a test can check it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from gtpo_lit.plots.curves import Columns, Mark, Panel, curve, lines, pass_at_k_curves
from gtpo_lit.plots.picture import draw_panels
from gtpo_lit.plots.reading import columns_of


def panels(columns: Columns) -> list[Panel]:
    """What the picture of a run shows; a metric without values has no line."""
    reward = {"train": "train/reward/mean"}
    entropy = {side: f"train/entropy/{side}" for side in ("mean", "correct", "wrong")}
    length = {side: f"train/length/{side}" for side in ("mean", "min", "max")}
    sets = pass_at_k_curves(columns)
    for name in sets:
        reward[name] = f"val/{name}/reward/mean"
        length[name] = f"val/{name}/length/mean"
    shown = [
        Panel(title="Reward", unit="mean reward", lines=lines(columns, reward)),
        Panel(
            title="Entropy",
            unit="nats a token",
            lines=lines(columns, entropy),
            marks=rebound_marks(columns),
        ),
        Panel(title="Response length", unit="tokens", lines=lines(columns, length)),
    ]
    for name, by_k in sets.items():
        found = {f"k = {k}": line for k, line in by_k.items() if line[0].size}
        shown.append(Panel(title=f"Pass@k, {name}", unit="share of problems", lines=found))
    return shown


def draw_curves(
    run: str | os.PathLike[str] | Columns, output: str | os.PathLike[str] | None = None
) -> Path:
    """Draw a run's curves: reward, entropy of correct and wrong, length, Pass@k.

    Args:
        run: a run folder, or columns as `read_metrics` returns them. Of a folder that was written
            in part, what can be read is drawn, with a warning.
        output: the picture's path; `curves.png` in the run folder if None.

    Returns:
        The path of the picture.

    Raises:
        FileNotFoundError: if the folder has no metrics.
        ValueError: if the metrics have no readable row, or columns come without `output`.
    """
    columns = columns_of(run)
    if output is None:
        if isinstance(run, Mapping):
            raise ValueError("output=None: columns do not say where the picture goes")
        output = Path(run) / "curves.png"
    return draw_panels(panels(columns), output)


def rebound_marks(columns: Columns) -> tuple[Mark, ...]:
    """The low of the mean entropy and the top after it; nothing where there is no sure rebound."""
    steps, values = curve(columns, "train/entropy/mean")
    if steps.size < 8:
        return ()
    # Imported here: torch comes along, which reading numbers must not wait for.
    from gtpo_lit.evaluation import entropy_rebound

    found = entropy_rebound(steps.tolist(), values.tolist())
    if not found.found:
        return ()
    rise = f"+{found.height:.3g} ({found.interval.low:.2g} to {found.interval.high:.2g})"
    return (
        Mark(x=found.low_step, y=found.low, text="low"),
        Mark(x=found.top_step, y=found.top, text=rise),
    )
