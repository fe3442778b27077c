"""Questions to an OpenAI-compatible endpoint, answered with token ids.

Every question carries a cache salt of its own: with a shared one D would find the prompt in its own prefix cache, and a
transfer that never happened would go unseen.
"""

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

MODEL = "tiny"
ANSWER_TOKENS = 24
SECONDS = 60.0
PREFILL_HEADER, DECODE_HEADER = "x-pdserving-prefill", "x-pdserving-decode"
"""Pods that served."""


@dataclass(frozen=True, slots=True)
class Question:
    """One request body and the path it belongs to."""

    path: str
    body: Mapping[str, Any]

    def streamed(self) -> "Question":
        return Question(self.path, {**self.body, "stream": True})


@dataclass(frozen=True, slots=True)
class Answer:
    tokens: tuple[int, ...]
    text: str
    finish_reason: str | None
    headers: Mapping[str, str] = field(default_factory=dict)


def completion(length: int, seed: int = 0) -> Question:
    """A prompt of exactly ``length`` tokens that shares no block with that of another seed or length."""
    return Question("/v1/completions", {"prompt": prompt(length, seed)})


def chat(text: str) -> Question:
    return Question("/v1/chat/completions", {"messages": [{"role": "user", "content": text}]})


def prompt(length: int, seed: int = 0) -> list[int]:
    """Token ids between 3 and 255, which every tokenizer with a byte alphabet has."""
    return [3 + (index * 37 + seed * 101 + length * 53) % 253 for index in range(length)]


def greedy(question: Question, **extra: Any) -> dict[str, Any]:
    """The body to send: greedy, of a fixed length, with token ids and a cache salt of its own."""
    return {
        "model": MODEL,
        "temperature": 0,
        "max_tokens": ANSWER_TOKENS,
        "ignore_eos": True,
        "return_token_ids": True,
        "cache_salt": str(uuid.uuid4()),
        **question.body,
        **extra,
    }


def ask(url: str, question: Question, *, seconds: float = SECONDS, **extra: Any) -> Answer:
    """Greedy answer of the engine or proxy at ``url``; httpx's error for any other status than 2xx."""
    body = greedy(question, **extra)
    with httpx.Client(timeout=seconds, trust_env=False) as client:
        response = client.post(url + question.path, json=body)
    if response.status_code >= 300:
        raise AssertionError(f"{question.path} answered {response.status_code}: {response.text[:500]}")
    choices = stream_choices(response.text) if body.get("stream") else [response.json()["choices"][0]]
    return _joined(choices, response.headers)


def stream_choices(text: str) -> list[dict[str, Any]]:
    """The choices of a whole event stream, each with what its event added."""
    data = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    assert data[-1] == "[DONE]", f"stream without an end: {data[-1][:300]}"
    events = [json.loads(each) for each in data[:-1]]
    assert not any("error" in event for event in events), f"error inside a stream: {text[:500]}"
    return [event["choices"][0] for event in events if event.get("choices")]


def _joined(choices: list[dict[str, Any]], headers: Mapping[str, str]) -> Answer:
    return Answer(
        tokens=tuple(token for choice in choices for token in choice.get("token_ids") or ()),
        text="".join(_text(choice) for choice in choices),
        finish_reason=choices[-1].get("finish_reason"),
        headers=headers,
    )


def _text(choice: Mapping[str, Any]) -> str:
    return choice.get("text") or (choice.get("message") or choice.get("delta") or {}).get("content") or ""
