"""Waiting for a condition with a deadline, the only kind of waiting in the suites."""

import time
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")


class NotYetError(AssertionError):
    """Raised by a check that wants to say how far things are."""


def eventually(what: str, check: Callable[[], Value], *, within: float, every: float = 0.5) -> Value:
    """Return the first true answer of ``check``; fail after ``within`` seconds with its last answer or error."""
    deadline = time.monotonic() + within
    while True:
        try:
            answer = check()
        except Exception as error:  # noqa: BLE001 - an API server that is away is one of the things to wait for
            answer, last = None, f"{type(error).__name__}: {error}"
        else:
            last = repr(answer)
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within:.0f} s: {what}; last: {last[-2000:]}")
        time.sleep(every)
