"""Kill -9 at listed places and random moments, resume, and compare with the whole run bit by bit.

    python -m benchmarks.kill_points --setups single ddp --moments 30

Prints one line a kill; ends with code 1 if any resumed run differs. A kill whose place a set-up
never comes by says so ("not reached"), and counts as no success.
"""

from __future__ import annotations

import argparse
import random
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.kills.points import POINTS
from benchmarks.kills.trial import SETUPS, Outcome, Trials


def main() -> None:
    """Run the kills that the command line asks for.

    Raises:
        SystemExit: with code 1 if any resumed run is not the whole one.
    """
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--setups", nargs="*", default=[*SETUPS], help="names in SETUPS")
    parser.add_argument("--extra", action="append", default=[], metavar="NAME=OPTIONS",
                        help="one more set-up: command-line options in one word")  # fmt: skip
    parser.add_argument("--points", nargs="*", default=[*POINTS], help="names in POINTS")
    parser.add_argument("--calls", nargs="*", type=int, default=[1, 3], help="which call dies")
    parser.add_argument("--moments", type=int, default=30, help="kills at random moments")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=None)
    options = parser.parse_args()
    setups = {name: SETUPS[name] for name in options.setups}
    for text in options.extra:
        name, _, rest = text.partition("=")
        setups[name] = tuple(shlex.split(rest))
    folder = options.folder or Path(tempfile.mkdtemp(prefix="kill_points_"))
    print(f"runs and their logs: {folder}")
    same = differ = missed = 0
    for name, more in setups.items():
        trials = Trials(folder / name, more)
        trials.whole()
        print(f"{name}: the whole run takes {trials.seconds:.1f} s")
        moments = random.Random(options.seed)
        for title, outcome in _outcomes(trials, name, options, moments):
            same += outcome.died and not outcome.fault
            differ += bool(outcome.fault)
            missed += not outcome.died and not outcome.fault
            said = outcome.fault or ("same" if outcome.died else "not reached, same")
            print(f"{name:10s} {title:46s} {said}", flush=True)
    print(f"{same} killed and the same, {differ} different, {missed} not reached")
    raise SystemExit(differ > 0)


def _outcomes(
    trials: Trials, name: str, options: argparse.Namespace, moments: random.Random
) -> Iterator[tuple[str, Outcome]]:
    number = 0
    ranks = (-1,) if name == "single" else (0, 1)
    for point in options.points:
        for call in options.calls:
            for rank in ranks:
                number += 1
                where = "" if rank < 0 else f", rank {rank}"
                outcome = trials.at_point(f"p{number}", point, call=call, rank=rank)
                yield f"{point}, call {call}{where}", outcome
    for moment in range(options.moments):
        yield f"moment {moment}", trials.at_moment(f"m{moment}", moments)


if __name__ == "__main__":
    main()
