"""The exchange with a decode engine, relayed to the client.

Until something went to the client, any failure can still be retried or answered with a status: so D's head is held
until its first body byte, and an answer that is not a stream is held until it is complete. A stream is forwarded in
whole chunks only, so that an error event can follow wherever it breaks.
"""

from typing import Final, Protocol

from pdserving.proxy.http.framing import Head, dechunk
from pdserving.proxy.http.upstream import Leg
from pdserving.proxy.pool import Target

HOLD_LIMIT: Final = 4 * 1024 * 1024
"""A longer answer is relayed as it comes."""
EVENT_STREAM: Final = b"text/event-stream"
ERROR_EVENT: Final = b'data: {"error"'
"""How vLLM begins an error inside a stream; within JSON text the quotes would be escaped."""
FAILED_LOAD: Final = "error-event"


class Listener(Protocol):
    """Who asked: a session, or what a client that left has left behind."""

    def start_stream(self, leg: "DecodeLeg", data: bytes) -> None: ...
    def relay(self, data: bytes) -> None: ...
    def finish_stream(self) -> None: ...
    def decode_answered(self, leg: "DecodeLeg", body: bytes) -> None: ...
    def decode_failed(self, cause: str) -> None: ...


class DecodeLeg(Leg):
    __slots__ = ("_relaying", "_rest", "_size", "_whole", "head", "session", "stream", "target", "tokens")

    def __init__(self, session: "Listener", target: Target, tokens: int) -> None:
        super().__init__()
        self.session = session
        self.target = target
        self.tokens = tokens
        self.head: Head | None = None
        self.stream = False
        self._relaying = False
        self._whole: list[bytes] = []
        self._rest = b""
        """The beginning of a chunk whose end has not come."""
        self._size = 0
        target.enter(tokens)

    def received_head(self, head: Head) -> None:
        self.head = head
        self.stream = head.status == 200 and head.content_type.startswith(EVENT_STREAM)

    def received_body(self, data: bytes, boundary: int) -> None:
        if self._rest or boundary != len(data):
            data = self._whole_chunks(data, boundary)
            if not data:
                return
        if self._relaying:
            self.session.relay(data)
        elif not self.stream:
            self._hold(data)
        elif ERROR_EVENT in data:
            self.cancel()
            self.session.decode_failed(FAILED_LOAD)
        else:
            self._relaying = True
            self.session.start_stream(self, data)

    def _whole_chunks(self, data: bytes, boundary: int) -> bytes:
        if self._rest:
            boundary += len(self._rest) if boundary else 0
            data = self._rest + data
        self._rest = data[boundary:]
        return data[:boundary]

    def _hold(self, data: bytes) -> None:
        self._whole.append(data)
        self._size += len(data)
        if self._size > HOLD_LIMIT:
            self._relaying = True
            self.session.start_stream(self, b"".join(self._whole))

    def ended(self) -> None:
        self.target.leave(self.tokens)
        if self._relaying:
            self.session.finish_stream()
            return
        body = b"".join(self._whole)
        if self.head is not None and self.head.chunked:
            body = dechunk(body)
        self.session.decode_answered(self, body)

    def answered(self, head: Head, body: bytes) -> None:
        self.received_head(head)
        if self.stream:
            super().answered(head, body)
            return
        self.target.leave(self.tokens)
        self.session.decode_answered(self, body)

    def broken(self, cause: str) -> None:
        self.target.leave(self.tokens)
        self.session.decode_failed(cause)

    def cancel(self) -> None:
        if not self.cancelled:
            self.target.leave(self.tokens)
        super().cancel()
