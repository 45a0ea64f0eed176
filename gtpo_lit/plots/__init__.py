"""Curves of one run and of several: numbers first, then pictures."""

from gtpo_lit.plots.compare import comparison_panels, draw_comparison, seed_band
from gtpo_lit.plots.curves import (
    Band,
    Columns,
    Curve,
    Mark,
    Panel,
    curve,
    pass_at_k_by_k,
    pass_at_k_curves,
)
from gtpo_lit.plots.picture import draw_panel, draw_panels, figure_of
from gtpo_lit.plots.run import draw_curves, panels, rebound_marks
from gtpo_lit.plots.style import METHOD_COLOURS, SIDE_COLOURS

__all__ = [
    "METHOD_COLOURS",
    "SIDE_COLOURS",
    "Band",
    "Columns",
    "Curve",
    "Mark",
    "Panel",
    "comparison_panels",
    "curve",
    "draw_comparison",
    "draw_curves",
    "draw_panel",
    "draw_panels",
    "figure_of",
    "panels",
    "pass_at_k_by_k",
    "pass_at_k_curves",
    "rebound_marks",
    "seed_band",
]
