"""What a person sees while something takes long: one line a step, with its elapsed time.

On a terminal the line counts the seconds; elsewhere (CI) it is repeated now and then, so that a log shows life.
"""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

REPEAT_SECONDS = 30


def say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


@contextmanager
def step(title: str) -> Iterator[None]:
    """Show `title` until the block ends, then its outcome and elapsed time."""
    started, done = time.monotonic(), threading.Event()
    ticker = threading.Thread(target=_tick, args=(title, started, done), daemon=True)
    ticker.start()
    outcome = "failed"
    try:
        yield
        outcome = "done"
    finally:
        done.set()
        ticker.join()
        end = "\r" if sys.stderr.isatty() else ""
        say(f"{end}{title}: {outcome} in {time.monotonic() - started:.1f} s")


def _tick(title: str, started: float, done: threading.Event) -> None:
    if not sys.stderr.isatty():
        while not done.wait(REPEAT_SECONDS):
            say(f"{title} … {time.monotonic() - started:.0f} s")
        return
    while True:
        print(f"\r{title} … {time.monotonic() - started:.0f} s", end="", file=sys.stderr, flush=True)
        if done.wait(1):
            return
