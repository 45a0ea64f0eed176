"""Several runs side by side: means over seeds with intervals, in the layout of the papers."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from gtpo_lit.plots.curves import Band, Columns, Curve, Panel, curve, pass_at_k_by_k
from gtpo_lit.plots.reading import Run, readable

Methods = Mapping[str, Sequence[Run]]
"""Runs by the name of their method, one a seed."""

# 97.5 % points of Student's t for 1, 2, ... degrees of freedom; beyond them the normal's is near.
_STUDENT = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
)
_NORMAL = 1.96
PANELS = (
    ("Reward", "mean reward", "train/reward/mean"),
    ("Entropy", "nats a token", "train/entropy/mean"),
    ("Entropy of correct answers", "nats a token", "train/entropy/correct"),
    ("Entropy of wrong answers", "nats a token", "train/entropy/wrong"),
    ("Response length", "tokens", "train/length/mean"),
)


def seed_band(curves: Sequence[Curve]) -> Band:
    """Mean over seeds with its 95 % interval, at the places that every seed has.

    The interval is Student's, of the mean over seeds; with one seed there is none (NaN).

    Raises:
        ValueError: without any curve.

    >>> at = np.array([1.0, 2.0])
    >>> band = seed_band([(at, np.array([0.0, 1.0])), (at, np.array([2.0, 1.0]))])
    >>> band.mean, band.high.round(3)
    (array([1., 1.]), array([13.706,  1.   ]))
    """
    if not curves:
        raise ValueError("a mean over seeds needs a curve")
    places = curves[0][0]
    for steps, _ in curves[1:]:
        places = np.intersect1d(places, steps)
    values = np.stack([found[np.isin(steps, places)] for steps, found in curves])
    mean = values.mean(axis=0)
    seeds = len(curves)
    if seeds == 1:
        none = np.full_like(mean, np.nan)
        return Band(x=places, mean=mean, low=none, high=none, seeds=1)
    quantile = _STUDENT[seeds - 2] if seeds - 2 < len(_STUDENT) else _NORMAL
    half = quantile * values.std(axis=0, ddof=1) / np.sqrt(seeds)
    return Band(x=places, mean=mean, low=mean - half, high=mean + half, seeds=seeds)


def comparison_panels(methods: Methods, *, sets: Sequence[str] | None = None) -> list[Panel]:
    """What the picture of several methods shows: curves over RL steps, then pass@k over k.

    Args:
        methods: run folders, or columns as `read_metrics` returns them, by method. A run that
            cannot be read, or has no curve to show, is left out with a warning.
        sets: validation sets shown by pass@k at the last step that all runs validated; all that
            every run has, if not given.

    Raises:
        ValueError: without a method, or with a method without a run.
        FileNotFoundError: if none of a method's folders is one of a run.
    """
    read = {name: _with_curves(name, readable(runs)) for name, runs in methods.items()}
    if not read or not all(read.values()):
        raise ValueError(
            f"every method needs a run with curves, got { ({n: len(r) for n, r in read.items()}) }"
        )
    shown = [
        _panel(title, unit, {name: _curves(runs, metric) for name, runs in read.items()})
        for title, unit, metric in PANELS
    ]
    for name in common_sets(read) if sets is None else sets:
        step = last_common_step(read, name)
        by_k = {
            method: [pass_at_k_by_k(run, name, step) for run in runs]
            for method, runs in read.items()
        }
        over_steps = {method: _curves(runs, f"val/{name}/pass@1") for method, runs in read.items()}
        shown.append(_panel(f"Pass@1, {name}", "share of problems", over_steps))
        title = f"Pass@k, {name}, after RL step {step}"
        shown.append(_panel(title, "share of problems", by_k, x_label="k", log_x=True))
    return shown


def common_sets(read: Mapping[str, Sequence[Columns]]) -> list[str]:
    """The validation sets whose pass@1 every run has."""
    found = [
        {name for name in run if name.startswith("val/") and name.endswith("/pass@1")}
        for runs in read.values()
        for run in runs
    ]
    names = set.intersection(*found) if found else set()
    return sorted(name.removeprefix("val/").removesuffix("/pass@1") for name in names)


def last_common_step(read: Mapping[str, Sequence[Columns]], name: str) -> int:
    """The last RL step after which every run was validated on a set.

    Raises:
        ValueError: if there is none.
    """
    steps = [
        set(curve(run, f"val/{name}/pass@1")[0].astype(int).tolist())
        for runs in read.values()
        for run in runs
    ]
    common = set.intersection(*steps)
    if not common:
        raise ValueError(f"no RL step has a validation on {name!r} in every run")
    return int(max(common))


def draw_comparison(methods: Methods, output: str | os.PathLike[str]) -> Path:
    """Draw `comparison_panels`; the path of the picture."""
    from gtpo_lit.plots.picture import draw_panels

    return draw_panels(comparison_panels(methods), output)


def _with_curves(method: str, runs: Sequence[Columns]) -> list[Columns]:
    """The runs that were trained or validated, not such as hold tables of an evaluation alone."""
    metrics = {metric for _, _, metric in PANELS}
    kept = [run for run in runs if any(n in metrics or n.startswith("val/") for n in run)]
    if len(kept) < len(runs):
        warnings.warn(
            f"{method}: {len(runs) - len(kept)} run(s) hold no curve of a training or validation, "
            "and are left out",
            stacklevel=3,
        )
    return kept


def _curves(runs: Sequence[Columns], metric: str) -> list[Curve]:
    return [curve(run, metric) for run in runs]


def _panel(
    title: str,
    unit: str,
    by_method: Mapping[str, Sequence[Curve]],
    *,
    x_label: str = "RL step",
    log_x: bool = False,
) -> Panel:
    bands = {name: seed_band(curves) for name, curves in by_method.items()}
    bands = {_legend(name, band): band for name, band in bands.items() if band.x.size}
    return Panel(
        title=title,
        unit=unit,
        lines={name: (band.x, band.mean) for name, band in bands.items()},
        bands={name: band for name, band in bands.items() if band.seeds > 1},
        x_label=x_label,
        log_x=log_x,
    )


def _legend(name: str, band: Band) -> str:
    return name if band.seeds == 1 else f"{name}, {band.seeds} seeds"
