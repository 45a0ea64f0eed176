"""Kill -9 at listed places and random moments, resume, and compare with the whole run bit by bit.

    python -m benchmarks.kill_points --setups single ddp --moments 30

Prints one line a kill; ends with code 1 if any resumed run differs. A kill whose place the run
never comes by says so ("not reached"), and counts as no success. With --fresh, every run is an
interpreter of its own, and Lightning starts the other ranks: slower by the imports of each.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.kills.points import POINTS
from benchmarks.kills.setups import SETUPS, Setup
from benchmarks.kills.trial import Outcome, Trials


def main() -> None:
    """Run the kills that the command line asks for.

    Raises:
        SystemExit: with code 1 if any resumed run is not the whole one.
    """
    options = _options()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="kill_points_"))
    print(f"runs and their logs: {folder}", flush=True)
    began, differ = time.monotonic(), 0
    for name in options.setups:
        trials = Trials(folder / name, SETUPS[name], fresh=options.fresh)
        trials.whole()
        print(f"{name}: the whole run takes {trials.seconds:.1f} s", flush=True)
        counts = dict.fromkeys(("same", "not reached", "different"), 0)
        for title, outcome in _outcomes(trials, options):
            said = "different" if outcome.fault else "same" if outcome.died else "not reached"
            counts[said] += 1
            print(f"{name:8s} {title:46s} {said} {outcome.fault}".rstrip(), flush=True)
        print(f"{name}: " + ", ".join(f"{count} {said}" for said, count in counts.items()))
        differ += counts["different"]
    print(f"{time.monotonic() - began:.0f} s in all", flush=True)
    raise SystemExit(differ > 0)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--setups", nargs="*", default=[*SETUPS], choices=[*SETUPS])
    parser.add_argument("--points", nargs="*", default=[*POINTS], choices=[*POINTS], metavar="NAME")
    parser.add_argument("--calls", nargs="*", type=int, default=[1, 3], help="which call dies")
    parser.add_argument("--moments", type=int, default=30, help="kills at random moments")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--folder", type=Path, default=None)
    return parser.parse_args()


def _outcomes(trials: Trials, options: argparse.Namespace) -> Iterator[tuple[str, Outcome]]:
    moments = random.Random(options.seed)
    for point, call, rank in _places(trials.setup, options):
        where = "" if rank < 0 else f", rank {rank}"
        title = f"{point}, call {call}{where}"
        yield title, trials.at_point(title.replace(" ", "-"), point, call=call, rank=rank)
    for moment in range(options.moments):
        yield f"moment {moment}", trials.at_moment(f"moment-{moment}", moments)


def _places(setup: Setup, options: argparse.Namespace) -> Iterator[tuple[str, int, int]]:
    for name in options.points:
        point = POINTS[name]
        if point.sharded and not setup.sharded:
            continue
        ranks = (-1,) if setup.ranks == 1 else range(1 if point.first_rank else setup.ranks)
        for call in options.calls:
            for rank in ranks:
                yield name, call, rank


if __name__ == "__main__":
    main()
