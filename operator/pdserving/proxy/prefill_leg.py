"""The exchange with a prefill engine: a small JSON answer that says whether KV cache will come."""

from typing import TYPE_CHECKING, Final

import msgspec

from pdserving.proxy.http.framing import Head, dechunk
from pdserving.proxy.http.upstream import MALFORMED, Leg
from pdserving.proxy.pool import Target

if TYPE_CHECKING:
    from pdserving.proxy.session import Session

MAX_ANSWER: Final = 32 * 1024 * 1024


class Choice(msgspec.Struct):
    finish_reason: str | None = None


class Incomplete(msgspec.Struct):
    reason: str | None = None


class Details(msgspec.Struct):
    cached_tokens: int | None = None


class Usage(msgspec.Struct):
    prompt_tokens: int = 0
    input_tokens: int = 0
    prompt_tokens_details: Details | None = None
    input_tokens_details: Details | None = None


class Answer(msgspec.Struct):
    """How chat completions, completions, generate, responses and messages say why they ended."""

    choices: list[Choice] = []
    stop_reason: str | None = None
    incomplete_details: Incomplete | None = None
    usage: Usage | None = None

    @property
    def by_length(self) -> bool:
        """Only then P keeps the KV cache for D."""
        if self.choices:
            return len(self.choices) == 1 and self.choices[0].finish_reason == "length"
        if self.incomplete_details is not None:
            return self.incomplete_details.reason == "max_output_tokens"
        return self.stop_reason == "max_tokens"

    @property
    def prompt_tokens(self) -> int:
        return 0 if self.usage is None else self.usage.prompt_tokens or self.usage.input_tokens

    @property
    def cached_tokens(self) -> int:
        """What P really found in its prefix cache; vLLM leaves the details out when that was nothing."""
        details = self.usage and (self.usage.prompt_tokens_details or self.usage.input_tokens_details)
        return details.cached_tokens or 0 if details else 0


_decoder: Final = msgspec.json.Decoder(Answer)


class PrefillLeg(Leg):
    __slots__ = ("_chunked", "_parts", "_size", "session", "status", "target", "tokens")

    def __init__(self, session: "Session", target: Target, tokens: int) -> None:
        super().__init__()
        self.session = session
        self.target = target
        self.tokens = tokens
        self.status = 0
        self._chunked = False
        self._parts: bytes | list[bytes] = b""
        self._size = 0
        target.enter(tokens)

    def received_head(self, head: Head) -> None:
        self.status, self._chunked = head.status, head.chunked

    def received_body(self, data: bytes, boundary: int) -> None:
        self._size += len(data)
        if self._size > MAX_ANSWER:
            self.cancel()
            self.session.prefill_failed(MALFORMED)
        elif not self._parts:
            self._parts = data
        elif isinstance(self._parts, list):
            self._parts.append(data)
        else:
            self._parts = [self._parts, data]

    def ended(self) -> None:
        body = self._parts if isinstance(self._parts, bytes) else b"".join(self._parts)
        if self._chunked:
            body = dechunk(body)
        self.target.leave(self.tokens)
        self.session.prefill_answered(self, body)

    def answered(self, head: Head, body: bytes) -> None:
        self.status = head.status
        self.target.leave(self.tokens)
        self.session.prefill_answered(self, body)

    def broken(self, cause: str) -> None:
        self.target.leave(self.tokens)
        self.session.prefill_failed(cause)

    def cancel(self) -> None:
        if not self.cancelled:
            self.target.leave(self.tokens)
        super().cancel()


def parse_answer(body: bytes) -> Answer | None:
    try:
        return _decoder.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return None
