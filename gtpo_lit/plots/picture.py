"""Panels as a picture."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gtpo_lit.plots.curves import Panel
from gtpo_lit.plots.style import line_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw_panels(shown: Sequence[Panel], output: str | os.PathLike[str]) -> Path:
    """Draw panels two in a row and write the picture as a whole.

    Returns:
        The path of the picture.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure = figure_of(shown)
    FigureCanvasAgg(figure)
    output = Path(output)
    partial = output.with_name(f".{output.stem}.partial{output.suffix}")
    figure.savefig(partial, dpi=110)
    os.replace(partial, output)
    return output


def figure_of(shown: Sequence[Panel]) -> Figure:
    """The panels as a matplotlib figure, which a notebook shows by naming it."""
    # Imported here: reading a run must not need a drawing library.
    from gtpo_lit.plots.shown_figure import ShownFigure

    rows = -(-len(shown) // 2)
    figure = ShownFigure(figsize=(11, 3.4 * rows))
    margins = {"left": 0.07, "right": 0.98, "top": 1 - 0.13 / rows, "bottom": 0.18 / rows}
    figure.subplots_adjust(**margins, hspace=0.4)
    for place, panel in enumerate(shown, start=1):
        draw_panel(figure.add_subplot(rows, 2, place), panel)
    return figure


def draw_panel(axes: Axes, panel: Panel) -> None:
    """Draw exactly the numbers of a panel."""
    for label, (steps, values) in panel.lines.items():
        axes.plot(steps, values, label=label, **line_style(label, alone=steps.size < 3))
    for label, band in panel.bands.items():
        colour = line_style(label, alone=False).get("color")
        axes.fill_between(band.x, band.low, band.high, alpha=0.2, color=colour, linewidth=0)
    for mark in panel.marks:
        axes.plot([mark.x], [mark.y], "k|", markersize=12)
        axes.annotate(mark.text, (mark.x, mark.y), xytext=(3, 6), textcoords="offset points")
    axes.set(title=panel.title, xlabel=panel.x_label, ylabel=panel.unit)
    if panel.log_x:
        axes.set_xscale("log", base=2)
    axes.grid(alpha=0.3)
    if panel.lines:
        axes.legend(fontsize="small")
    else:
        axes.text(0.5, 0.5, "not logged", ha="center", va="center", transform=axes.transAxes)
