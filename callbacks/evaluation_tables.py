"""Several sets at a glance, and which problems are not in their figures."""

from __future__ import annotations

from collections.abc import Mapping

from lightning.pytorch import Trainer

from gtpo_lit.evaluation import SetSummary

# What a set's own table says in more detail.
_LEFT_OUT = ("maj@", "best@", "diversity/")


def missing_problems(trainer: Trainer, summaries: Mapping[str, SetSummary]) -> dict[str, int]:
    """How many of each set's usable problems were not evaluated, by the name of its figures.

    The engine may fail on a prompt, or the trainer be limited to some batches.
    """
    sizes = getattr(getattr(trainer, "datamodule", None), "evaluation_sizes", {})
    found = {name: name.split("/", 1)[1] for name in summaries}
    return {
        name: sizes[short] - summaries[name].problems
        for name, short in found.items()
        if short in sizes
    }


def table(values: Mapping[str, float]) -> str:
    """The main metrics as text: one line a set, one column a metric.

    >>> print(table({"val/a/pass@1": 0.25, "val/a/length/mean": 12.5, "val/b/pass@1": 1.0}))
    set    pass@1  length/mean
    val/a  0.2500      12.5000
    val/b  1.0000            -
    """
    sets: dict[str, dict[str, str]] = {}
    for name, value in values.items():
        prefix, set_name, metric = name.split("/", 2)
        if not metric.startswith(_LEFT_OUT):
            sets.setdefault(f"{prefix}/{set_name}", {})[metric] = f"{value:.4f}"
    metrics = list(dict.fromkeys(metric for row in sets.values() for metric in row))
    first = max(len(name) for name in ("set", *sets))
    widths = {m: max(len(m), *(len(row.get(m, "-")) for row in sets.values())) for m in metrics}
    lines = ["  ".join(["set".ljust(first), *(m.rjust(widths[m]) for m in metrics)])]
    for name, row in sets.items():
        cells = (row.get(m, "-").rjust(widths[m]) for m in metrics)
        lines.append("  ".join([name.ljust(first), *cells]))
    return "\n".join(lines)
