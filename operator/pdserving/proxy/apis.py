"""The routes of the main port: which are served by a pair of engines, and how each API spells what we must know."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from pdserving.proxy import rewrite
from pdserving.proxy.errors import Failure


@dataclass(frozen=True, slots=True)
class Api:
    """An API whose prompts are prefilled on P and decoded on D."""

    name: str
    path: bytes
    dialect: rewrite.Dialect
    build_error_event: Callable[[Failure], bytes]


@dataclass(frozen=True, slots=True)
class PassThrough:
    """A route that any decode engine answers."""

    name: str
    path: bytes
    method: bytes


def _openai_error(failure: Failure) -> bytes:
    return b"data: %b\n\ndata: [DONE]\n\n" % msgspec.json.encode({"error": failure.as_object()})


APIS: Final = {
    api.path: api
    for api in (
        Api("chat", b"/v1/chat/completions", rewrite.CHAT, _openai_error),
        Api("completions", b"/v1/completions", rewrite.COMPLETION, _openai_error),
    )
}

PASS_THROUGH: Final = {
    route.path: route
    for route in (
        PassThrough("models", b"/v1/models", b"GET"),
        PassThrough("version", b"/version", b"GET"),
        PassThrough("tokenize", b"/tokenize", b"POST"),
        PassThrough("detokenize", b"/detokenize", b"POST"),
    )
}
