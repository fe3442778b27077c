"""Scaling under a steady trickle of questions: no error, no wrong token; and with 2P2D every pair serves."""

import itertools
import time

from e2e.lib.asking import DECODE_HEADER, PREFILL_HEADER, Question, ask, completion
from e2e.lib.groups import Group
from e2e.lib.plain import Plain
from e2e.lib.trickle import trickle
from e2e.lib.waiting import eventually

Known = dict[str, tuple[Question, tuple[int, ...]]]


def known_answers(plain: Plain) -> Known:
    questions = {f"{length} tokens": completion(length, seed=3) for length in (5, 33, 64, 150)}
    return {name: (question, plain.tokens(question)) for name, question in questions.items()}


def test_grow_to_two_by_two_under_load(url: str, group: Group, plain: Plain) -> None:
    with trickle(url, known_answers(plain)) as tally:
        group.scale(prefill=2, decode=2)
        asked = tally.answered
        eventually("questions go on", lambda: tally.answered > asked + 8, within=60)
    assert not tally.wrong, str(tally)
    assert tally.answered > 10


def test_every_pair_serves_right_tokens(url: str, group: Group, plain: Plain) -> None:
    pairs = set(itertools.product(*([pod["metadata"]["name"] for pod in group.pods(r)] for r in ("prefill", "decode"))))
    assert len(pairs) == 4
    seen, deadline = set(), time.monotonic() + 90
    for seed in itertools.count():
        question = completion(40, seed=seed % 4)
        answer = ask(url, question)
        assert answer.tokens == plain.tokens(question), f"wrong tokens from {answer.headers}"
        seen.add((answer.headers[PREFILL_HEADER], answer.headers[DECODE_HEADER]))
        if seen >= pairs or time.monotonic() > deadline:
            break
    assert seen == pairs


def test_shrink_prefill_under_load(url: str, group: Group, plain: Plain) -> None:
    with trickle(url, known_answers(plain)) as tally:
        group.scale(prefill=1)
        asked = tally.answered
        eventually("questions go on", lambda: tally.answered > asked + 8, within=60)
    assert not tally.wrong, str(tally)
