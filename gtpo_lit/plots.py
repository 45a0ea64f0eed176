"""Curves of a run, from its folder alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gtpo_lit.run_folder import read_metrics

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Curve = Sequence[tuple[int, float]]
Curves = Mapping[str, Curve]

# Okabe and Ito's palette, readable by colour-blind people.
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#666666"


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One axis of a figure: which curves it draws, and how it is labelled."""

    title: str
    unit: str
    lines: tuple[tuple[str, str, str], ...]
    """(metric, label, colour)."""


def panels(curves: Curves) -> list[Panel]:
    """Reward, entropy, length and Pass@k, as far as the run logged them."""
    sets = sorted({name.split("/")[1] for name in curves if name.startswith("val/")})
    passes = [
        (name, name.removeprefix("val/"), colour)
        for chosen in sets
        for name, colour in zip(_first_and_last_pass(curves, chosen), (BLUE, GREEN), strict=False)
    ]
    return [
        Panel(
            title="Reward",
            unit="mean of the step",
            lines=(
                ("train/reward/mean", "reward", BLUE),
                ("train/correct/fraction", "correct", GREEN),
            ),
        ),
        Panel(
            title="Policy entropy",
            unit="nats a token",
            lines=(
                ("train/entropy/mean", "all", GREY),
                ("train/entropy/correct", "correct", BLUE),
                ("train/entropy/wrong", "wrong", ORANGE),
            ),
        ),
        Panel(
            title="Response length",
            unit="tokens",
            lines=(
                ("train/length/mean", "mean", BLUE),
                ("train/length/max", "longest", GREY),
            ),
        ),
        Panel(title="Pass@k on validation", unit="share of problems", lines=tuple(passes)),
    ]


def drawn_lines(curves: Curves) -> dict[str, dict[str, Curve]]:
    """What `draw_curves` draws: for each panel, the (RL step, value) pairs of each label."""
    return {
        panel.title: {label: curves[name] for name, label, _ in panel.lines if name in curves}
        for panel in panels(curves)
    }


def draw_curves(folder: Path, output: Path) -> None:
    """Draw a run's curves to a PNG file.

    Raises:
        RunFolderError: if the folder has no table of metrics.
    """
    from matplotlib.figure import Figure

    curves = read_metrics(folder)
    figure = Figure(figsize=(11, 7), layout="constrained")
    for axis, panel in zip(figure.subplots(2, 2).flat, panels(curves), strict=True):
        _draw_panel(axis, panel, curves)
    figure.suptitle(f"{folder.parent.name}, {folder.name}")
    figure.savefig(output, dpi=120, format="png")


def _draw_panel(axis: Axes, panel: Panel, curves: Curves) -> None:
    for name, label, colour in panel.lines:
        if name in curves:
            steps, values = zip(*curves[name], strict=True)
            marker = "o" if len(steps) < 12 else None
            axis.plot(steps, values, label=label, color=colour, marker=marker, markersize=3)
    axis.set_title(panel.title)
    axis.set_xlabel("RL step")
    axis.set_ylabel(panel.unit)
    axis.grid(alpha=0.3)
    if axis.lines:
        axis.legend(frameon=False)
    else:
        axis.text(0.5, 0.5, "not logged", ha="center", transform=axis.transAxes, color=GREY)


def _first_and_last_pass(curves: Curves, chosen: str) -> list[str]:
    names = [name for name in curves if name.startswith(f"val/{chosen}/pass@")]
    ordered = sorted(names, key=lambda name: int(name.rpartition("@")[2]))
    return ordered if len(ordered) < 2 else [ordered[0], ordered[-1]]
