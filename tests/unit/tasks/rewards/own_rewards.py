"""Functions as a user may write them; imported by path."""

import os
import signal
import sys
import time


def share_of_letters(completion, answer, letter="a"):
    return completion.count(letter) / max(1, len(completion))


def fails_on_bread(completion, answer):
    if completion == "bread":
        raise KeyError("no bread")
    return float(completion == answer)


def hangs(completion, answer):
    time.sleep(1000)


def needs_more(completion, answer, key):
    return 0.0


def process_id(completion, answer):
    return os.getpid()


def hangs_on_rank_1(completion, answer):
    if answer == "1":
        time.sleep(1000)
    return 1.0


def misbehaves(completion, answer):
    if completion == "raises":
        raise ZeroDivisionError("nothing to divide by")
    if completion == "leaves":
        sys.exit(3)
    if completion == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    if completion == "eats":
        return len([bytearray(2**20) for _ in range(10**6)])
    return {"says nothing": None, "says a word": "good", "says nan": float("nan")}.get(
        completion, 1.0
    )
