"""A prefill engine dies in place: same pod, same address, new engine id. No request may go to the old id and hang.

vLLM's decode engines never forget an engine id that they once spoke to: a gateway that does not re-read it makes every
later request wait for abort timeout + 60 s.
"""

import time

from e2e.lib.asking import ask, completion
from e2e.lib.engine import Engine, transferred
from e2e.lib.groups import START_SECONDS, Group
from e2e.lib.plain import Plain
from e2e.lib.waiting import eventually

DEADLINE = 30.0
"""Seconds that any request may take while P is gone: far below D's own wait for a dead P."""


def test_killed_prefill_engine_gets_a_new_id_and_serves(url: str, group: Group, plain: Plain) -> None:
    (prefiller,) = group.engines("prefill")
    decoder = group.engines("decode")[0]
    old, restarts, question = prefiller.engine_id(), prefiller.restarts(), completion(64, seed=9)
    right = plain.tokens(question)
    prefiller.kill()

    while prefiller.restarts() == restarts:
        assert _timed(url, right) < DEADLINE
    new = eventually("a new engine id", lambda: _changed(prefiller, old), within=START_SECONDS, every=2)
    assert new != old
    group.wait_ready()
    _kv_moves_again(url, decoder, right)


def _timed(url: str, right: tuple[int, ...]) -> float:
    """Seconds that a right answer takes."""
    started = time.monotonic()
    assert ask(url, completion(64, seed=9)).tokens == right
    return time.monotonic() - started


def _changed(engine: Engine, old: str) -> str | None:
    now = engine.engine_id()
    return now if now != old else None


def _kv_moves_again(url: str, decoder: Engine, right: tuple[int, ...]) -> None:
    """Not only right tokens, which D can compute alone, but P's KV cache again, within seconds."""
    before = transferred(decoder.counters())

    def moved() -> bool:
        assert _timed(url, right) < DEADLINE
        return transferred(decoder.counters()) > before

    eventually("KV cache moves from the restarted engine", moved, within=30)
