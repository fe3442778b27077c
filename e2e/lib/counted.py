"""Questions whose answer is known and whose KV cache is counted.

The right answer is D's own, computed from the whole prompt with no P behind it.
"""

from e2e.lib.asking import Answer, ask, completion, greedy
from e2e.lib.engine import Engine, transferred

LENGTH = 96
"""Prompt tokens: three blocks."""


def right_tokens(decoder: Engine, seed: int) -> tuple[int, ...]:
    return tuple(decoder.ask(greedy(completion(LENGTH, seed)))["choices"][0]["token_ids"])


def ask_and_count(url: str, decoder: Engine, seed: int) -> tuple[Answer, float]:
    """The answer, and how many prompt tokens D took from P for it."""
    before = transferred(decoder.counters())
    answer = ask(url, completion(LENGTH, seed))
    return answer, transferred(decoder.counters()) - before
