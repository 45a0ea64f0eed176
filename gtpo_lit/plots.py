"""Curves of a run: the numbers first, then the picture.

`panels` returns exactly what `draw_curves` draws, so that a notebook can draw it another way and
a test can check it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from gtpo_lit.metrics_csv import read_metrics

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Columns = Mapping[str, Sequence[float]]
Curve = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]

_PASS = re.compile(r"val/(?P<set>.+)/pass@(?P<k>\d+)")


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One axes of the picture."""

    title: str
    unit: str
    lines: dict[str, Curve] = field(default_factory=dict)
    """Legend -> (RL steps, values)."""


def curve(columns: Columns, name: str) -> Curve:
    """The (RL steps, values) of a metric, without the steps that have no value.

    >>> curve({"step": [0, 1, 2], "loss": [float("nan"), 0.5, 0.25]}, "loss")
    (array([1., 2.]), array([0.5 , 0.25]))
    """
    if name not in columns:
        return np.empty(0), np.empty(0)
    steps = np.asarray(columns["step"], dtype=np.float64)
    values = np.asarray(columns[name], dtype=np.float64)
    known = np.isfinite(values)
    return steps[known], values[known]


def pass_at_k_curves(columns: Columns) -> dict[str, dict[int, Curve]]:
    """For each validation set, the curve of pass@k for every k that was logged."""
    sets: dict[str, dict[int, Curve]] = {}
    for name in columns:
        match = _PASS.fullmatch(name)
        if match:
            sets.setdefault(match["set"], {})[int(match["k"])] = curve(columns, name)
    return {name: dict(sorted(by_k.items())) for name, by_k in sets.items()}


def pass_at_k_by_k(columns: Columns, set_name: str, step: int) -> Curve:
    """The (k, pass@k) of one validation set after an RL step, for a plot against k."""
    by_k = pass_at_k_curves(columns).get(set_name, {})
    points = [(k, values[steps == step]) for k, (steps, values) in by_k.items()]
    known = [(float(k), float(value[0])) for k, value in points if value.size]
    return np.array([k for k, _ in known]), np.array([value for _, value in known])


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
        Panel(title="Reward", unit="mean reward", lines=_lines(columns, reward)),
        Panel(title="Entropy", unit="nats a token", lines=_lines(columns, entropy)),
        Panel(title="Response length", unit="tokens", lines=_lines(columns, length)),
    ]
    for name, by_k in sets.items():
        lines = {f"k = {k}": line for k, line in by_k.items() if line[0].size}
        shown.append(Panel(title=f"Pass@k, {name}", unit="share of problems", lines=lines))
    return shown


def draw_curves(
    run: str | os.PathLike[str] | Columns, output: str | os.PathLike[str] | None = None
) -> Path:
    """Draw a run's curves: reward, entropy of correct and wrong, length, Pass@k.

    Args:
        run: a run folder, or columns as `read_metrics` returns them.
        output: the picture's path; `curves.png` in the run folder if None.

    Returns:
        The path of the picture.

    Raises:
        FileNotFoundError: if the folder has no metrics.
        ValueError: if the metrics have no row, or columns come without `output`.
    """
    columns = run if isinstance(run, Mapping) else read_metrics(run)
    if output is None:
        if isinstance(run, Mapping):
            raise ValueError("output=None: columns do not say where the picture goes")
        output = Path(run) / "curves.png"
    # Imported here: reading a run must not need a drawing library.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    shown = panels(columns)
    rows = -(-len(shown) // 2)
    figure = Figure(figsize=(11, 3.4 * rows))
    FigureCanvasAgg(figure)
    margins = {"left": 0.07, "right": 0.98, "top": 1 - 0.13 / rows, "bottom": 0.18 / rows}
    figure.subplots_adjust(**margins, hspace=0.4)
    for place, panel in enumerate(shown, start=1):
        _draw(figure.add_subplot(rows, 2, place), panel)
    output = Path(output)
    partial = output.with_name(f".{output.stem}.partial{output.suffix}")
    figure.savefig(partial, dpi=110)
    os.replace(partial, output)
    return output


def _draw(axes: Axes, panel: Panel) -> None:
    for label, (steps, values) in panel.lines.items():
        axes.plot(steps, values, label=label, marker="o" if steps.size < 3 else None)
    axes.set(title=panel.title, xlabel="RL step", ylabel=panel.unit)
    axes.grid(alpha=0.3)
    if panel.lines:
        axes.legend(fontsize="small")
    else:
        axes.text(0.5, 0.5, "not logged", ha="center", va="center", transform=axes.transAxes)


def _lines(columns: Columns, names: Mapping[str, str]) -> dict[str, Curve]:
    curves = {label: curve(columns, name) for label, name in names.items()}
    return {label: line for label, line in curves.items() if line[0].size}
