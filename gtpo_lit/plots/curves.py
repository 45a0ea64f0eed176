"""Curves out of a run's metrics: the numbers that pictures draw."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Columns = Mapping[str, Sequence[float]]
Curve = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]

_PASS = re.compile(r"val/(?P<set>.+)/pass@(?P<k>\d+)")


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A point of the picture with a note beside it."""

    x: float
    y: float
    text: str


@dataclass(frozen=True, kw_only=True)
class Band:
    """A mean over seeds with its interval, at places x."""

    x: npt.NDArray[np.float64]
    mean: npt.NDArray[np.float64]
    low: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]
    seeds: int


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One axes of the picture."""

    title: str
    unit: str
    lines: dict[str, Curve] = field(default_factory=dict)
    """Legend -> (RL steps, values)."""
    marks: tuple[Mark, ...] = ()
    """Points worth a note, such as where entropy was lowest."""
    bands: dict[str, Band] = field(default_factory=dict)
    """Legend -> interval around the line of that name."""
    x_label: str = "RL step"
    log_x: bool = False


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


def lines(columns: Columns, names: Mapping[str, str]) -> dict[str, Curve]:
    """Curves by legend, from metric names by legend; those without any value are left out."""
    curves = {label: curve(columns, name) for label, name in names.items()}
    return {label: line for label, line in curves.items() if line[0].size}
