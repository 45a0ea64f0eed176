"""Memory of a process and of all that it started."""

from __future__ import annotations

import os
from pathlib import Path


def family_mb(root: int | None = None) -> float:
    """Resident memory in MiB of a process (this one) and its descendants; NaN without /proc."""
    root = os.getpid() if root is None else root
    if not Path("/proc/self/statm").exists():
        return float("nan")
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int(
                (folder / "stat").read_text().rpartition(")")[2].split()[1]
            )
        except OSError:  # it ended meanwhile
            continue
    family = {root}
    while more := {child for child, parent in parents.items() if parent in family} - family:
        family |= more
    return sum(map(_resident_mb, family))


def _resident_mb(process: int) -> float:
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return pages * os.sysconf("SC_PAGESIZE") / 2**20
