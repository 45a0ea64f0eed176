"""Judges that misbehave; imported by worker processes only."""

import os
import signal
import sys
import time


def number(value):
    return value


def hang(value):
    while True:
        pass


def hang_in_c(value):
    # Holds the interpreter's lock for good: no signal handler in Python would run.
    return len(str(9**9**9))


def ignore_signals(value):
    for name in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM):
        signal.signal(name, signal.SIG_IGN)
    time.sleep(1000)


def eat_memory(value):
    return len([bytearray(2**20) for _ in range(value)])


def die(value):
    os.kill(os.getpid(), signal.SIGSEGV)


def leave(value):
    sys.exit(3)


def shout(value):
    print("1.0" * 1000)
    os.write(1, b"noise")
    sys.stdout.flush()
    return value


def fail(value):
    raise KeyError(f"no {value}")


def not_a_number(value):
    return float("nan")


def process_id(value):
    return os.getpid()


def length(value):
    return len(value)


def first_call_is_slow(value):
    return PREPARED


PREPARED = 0


def prepare_judge():
    global PREPARED
    time.sleep(1.5)
    PREPARED = 1
