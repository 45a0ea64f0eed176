"""The processes of a group on Linux, and the shared memory that they would leave behind."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")
# What Python's `multiprocessing.shared_memory` makes.
SEGMENT = re.compile(r"/dev/shm/psm_\w+")


def members(group: int) -> list[int]:
    """Ids of the processes of a group, zombies left out; none where there is no /proc."""
    found = []
    for entry in PROC.glob("[0-9]*"):
        with suppress(OSError, ValueError):  # gone meanwhile
            # After the name in brackets: state, parent, group.
            state, _, member = (entry / "stat").read_text().rpartition(")")[2].split()[:3]
            if int(member) == group and state != "Z":
                found.append(int(entry.name))
    return found


def shared_memory(group: int) -> set[Path]:
    """The segments of shared memory that the processes of a group have mapped."""
    found: set[Path] = set()
    for pid in members(group):
        with suppress(OSError):
            found |= {Path(name) for name in SEGMENT.findall((PROC / f"{pid}/maps").read_text())}
    return found
