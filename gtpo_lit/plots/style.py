"""How lines look: each method and each side of the answers has its own colour everywhere.

The colours are those of Okabe and Ito, which colour-blind people can tell apart; line styles and
markers tell the same once more for print without colour.
"""

from __future__ import annotations

from typing import Any

METHOD_COLOURS = {
    "GRPO": "#000000",
    "Dr.GRPO": "#56B4E9",
    "DAPO": "#0072B2",
    "DAPO forking": "#009E73",
    "GSPO": "#E69F00",
    "GTPO": "#D55E00",
    "GRPO-S": "#CC79A7",
}
SIDE_COLOURS = {"correct": "#009E73", "wrong": "#D55E00", "mean": "#000000"}
_DASHES = {
    "GRPO": ":",
    "Dr.GRPO": (0, (1, 1)),
    "DAPO": "--",
    "DAPO forking": "-.",
    "GSPO": (0, (5, 1)),
    "correct": "--",
    "wrong": "-.",
}


def line_style(label: str, *, alone: bool) -> dict[str, Any]:
    """Keywords of `Axes.plot` for a legend; a known name may have a note behind it.

    Args:
        label: such as "GTPO" or "GTPO, 3 seeds".
        alone: whether there are too few points to make a line.

    >>> line_style("GTPO, 3 seeds", alone=True)
    {'marker': 'o', 'color': '#D55E00', 'linestyle': '-'}
    >>> line_style("k = 8", alone=False)
    {'marker': None}
    """
    name = label.split(",")[0]
    style: dict[str, Any] = {"marker": "o" if alone else None}
    colour = METHOD_COLOURS.get(name) or SIDE_COLOURS.get(name)
    if colour is not None:
        style |= {"color": colour, "linestyle": _DASHES.get(name, "-")}
    return style
