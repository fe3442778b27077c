"""A steady trickle of questions whose answers are known, while something happens to the group."""

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from e2e.lib.asking import Question, ask


@dataclass(slots=True)
class Tally:
    """What became of the questions so far."""

    answered: int = 0
    wrong: list[str] = field(default_factory=list)
    slowest: float = 0.0

    def __str__(self) -> str:
        return f"{self.answered} answered, slowest {self.slowest:.1f} s, wrong or failed: {self.wrong or 'none'}"


@contextmanager
def trickle(url: str, known: Mapping[str, tuple[Question, tuple[int, ...]]], every: float = 0.4) -> Iterator[Tally]:
    """Ask the ``known`` questions one after the other; ``known`` is name -> (question, right tokens)."""
    tally, stop = Tally(), threading.Event()
    worker = threading.Thread(target=_ask_until, args=(stop, tally, url, known, every), daemon=True)
    worker.start()
    try:
        yield tally
    finally:
        stop.set()
        worker.join(timeout=90)


def _ask_until(
    stop: threading.Event,
    tally: Tally,
    url: str,
    known: Mapping[str, tuple[Question, tuple[int, ...]]],
    every: float,
) -> None:
    while not stop.is_set():
        for name, (question, right) in known.items():
            if stop.wait(every):
                return
            _once(tally, url, name, question, right)


def _once(tally: Tally, url: str, name: str, question: Question, right: tuple[int, ...]) -> None:
    started = time.monotonic()
    try:
        tokens = ask(url, question).tokens
    except Exception as error:  # noqa: BLE001 - every failure is a finding, none may end the trickle
        tally.wrong.append(f"{name}: {type(error).__name__}: {error}")
        return
    tally.answered += 1
    tally.slowest = max(tally.slowest, time.monotonic() - started)
    if tokens != right:
        tally.wrong.append(f"{name}: {tokens} instead of {right}")
