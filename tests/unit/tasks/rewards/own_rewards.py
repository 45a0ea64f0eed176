"""Functions as a user may write them; imported by path."""

import os
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
