"""Functions as a user may write them; imported by path."""

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
