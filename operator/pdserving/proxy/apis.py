"""The routes of the main port: which are served by a pair of engines, and how each API spells what we must know."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from pdserving.proxy import dialects
from pdserving.proxy.errors import Failure


@dataclass(frozen=True, slots=True)
class Api:
    """An API whose prompts are prefilled on P and decoded on D."""

    name: str
    path: bytes
    dialect: dialects.Dialect
    build_error_event: Callable[[Failure], bytes]


@dataclass(frozen=True, slots=True)
class PassThrough:
    """A route that any decode engine answers."""

    name: str
    path: bytes
    method: bytes


def _openai_error(failure: Failure) -> bytes:
    return b"data: %b\n\ndata: [DONE]\n\n" % failure.as_openai()


def _anthropic_error(failure: Failure) -> bytes:
    return b"event: error\ndata: %b\n\n" % failure.as_anthropic()


def _responses_error(failure: Failure) -> bytes:
    content = {"type": "error", "code": failure.code, "message": failure.message, "param": None, "sequence_number": 0}
    return b"event: error\ndata: %b\n\n" % msgspec.json.encode(content)


APIS: Final = {
    api.path: api
    for api in (
        Api("chat", b"/v1/chat/completions", dialects.CHAT, _openai_error),
        Api("completions", b"/v1/completions", dialects.COMPLETION, _openai_error),
        Api("responses", b"/v1/responses", dialects.RESPONSES, _responses_error),
        Api("messages", b"/v1/messages", dialects.MESSAGES, _anthropic_error),
        Api("generate", b"/inference/v1/generate", dialects.GENERATE, _openai_error),
    )
}

PASS_THROUGH: Final = {
    route.path: route
    for route in (
        PassThrough("models", b"/v1/models", b"GET"),
        PassThrough("version", b"/version", b"GET"),
        PassThrough("tokenize", b"/tokenize", b"POST"),
        PassThrough("detokenize", b"/detokenize", b"POST"),
        PassThrough("count_tokens", b"/v1/messages/count_tokens", b"POST"),
    )
}
