"""The half of a session that faces the client: heads, streams, errors, and the one place where a request ends."""

import re
from typing import TYPE_CHECKING, Final

from pdserving.proxy.apis import Api
from pdserving.proxy.decode_leg import ERROR_EVENT, DecodeLeg
from pdserving.proxy.errors import Failure
from pdserving.proxy.http.edge import ClientEdge
from pdserving.proxy.http.framing import LAST_CHUNK, Head, chunk, dechunk
from pdserving.proxy.http.reply import Reply, build_failure, build_head
from pdserving.proxy.http.request import Request
from pdserving.proxy.http.upstream import Leg
from pdserving.proxy.pool import Target

if TYPE_CHECKING:
    from pdserving.proxy.gateway import Gateway

CACHED: Final = b'"cached_tokens":'
_CACHED_NUMBER: Final = re.compile(rb'"cached_tokens":( ?\d+)')


def correct_cached(data: bytes, cached: int) -> bytes:
    """Put P's count of cached prompt tokens in place of D's, which takes all fetched KV cache for a cache hit.

    Padded with spaces to the same length, so that no framing changes; a number too long for the place is left out.
    """

    def replace(match: re.Match[bytes]) -> bytes:
        number = b"%d" % cached
        return b'"cached_tokens":' + number.rjust(len(match[1])) if len(number) <= len(match[1]) else match[0]

    return _CACHED_NUMBER.sub(replace, data)


class Answering:
    __slots__ = (
        "_api", "_asked", "_cached", "_chunks", "_dechunk", "_decode", "_done", "_edge", "_ends_at", "_first",
        "_gateway", "_keep_alive", "_last", "_leg", "_path", "_prefill", "_prefill_ms", "_request", "_sent",
        "_started", "_stream_failed", "_streamed",
    )  # fmt: skip

    def __init__(self, gateway: "Gateway", edge: ClientEdge, request: Request, api: Api) -> None:
        self._gateway = gateway
        self._edge = edge
        self._request = request
        self._api = api
        self._path = "pd"
        self._started = request.received
        self._ends_at = request.received + gateway.config.request_timeout
        self._leg: Leg | None = None
        self._prefill: Target | None = None
        self._decode: Target | None = None
        self._asked = self._prefill_ms = self._first = self._last = 0.0
        self._chunks = 0
        self._cached: int | None = None
        """P's cached prompt tokens, once it has answered."""
        self._sent = self._done = self._dechunk = self._stream_failed = self._streamed = False
        self._keep_alive = request.keep_alive
        edge.exchange = self
        gateway.in_flight += 1

    # ---- answers

    def start_stream(self, leg: DecodeLeg, data: bytes) -> None:
        head = leg.head
        assert head is not None  # noqa: S101
        self._measure_first()
        self._sent = True
        framing = self._choose_framing(head)
        close = b"" if self._keep_alive else b"connection: close\r\n"
        text = build_head(head.status, head.content_type, framing + close, self._headers())
        self._edge.transport.write(text + b"\r\n" + (dechunk(data) if self._dechunk else data))
        self._wait(self._first, self._gateway.config.idle_timeout)
        self._last, self._chunks = self._first, 1
        if not self._edge.writable:
            leg.pause()

    def _choose_framing(self, head: Head) -> bytes:
        if head.chunked and self._request.chunked_ok:
            return b"transfer-encoding: chunked\r\n"
        if head.length is not None:
            return b"content-length: %d\r\n" % head.length
        self._dechunk = head.chunked
        self._keep_alive = False
        return b""

    def relay(self, data: bytes) -> None:
        now = self._gateway.wheel.clock()
        self._last = now
        self._chunks += 1
        self._edge.deadline.at = min(now + self._gateway.config.idle_timeout, self._ends_at)
        if ERROR_EVENT in data:
            self._stream_failed = True
        if self._cached is not None and CACHED in data:
            data = correct_cached(data, self._cached)
        self._edge.transport.write(dechunk(data) if self._dechunk else data)

    def finish_stream(self) -> None:
        self._leg = None
        if self._chunks > 1:
            self._gateway.metrics.chunk_gap.observe((self._last - self._first) / (self._chunks - 1))
        self._finish("error_in_stream" if self._stream_failed else "ok", keep_alive=self._keep_alive)

    def _break_stream(self, why: str) -> None:
        """Say in the client's protocol that the stream is not complete; never let it look finished."""
        self._drop_leg()
        if self._streamed:
            text = f"The answer is incomplete: {why}. Send the request again."
            event = self._api.build_error_event(Failure(502, "stream_broken", text))
            chunked = self._request.chunked_ok and not self._dechunk
            self._edge.transport.write(chunk(event) + LAST_CHUNK if chunked else event)
        else:
            self._edge.transport.abort()
        self._finish("stream_broken", keep_alive=False)

    def _answer(self, status: int, content_type: bytes, body: bytes, outcome: str) -> None:
        if self._cached is not None and CACHED in body:
            body = correct_cached(body, self._cached)
        self._reply(Reply(status, body, content_type, self._headers()), outcome)

    def _fail(self, failure: Failure, outcome: str) -> None:
        self._drop_leg()
        self._reply(build_failure(failure, self._request.path, self._headers()), outcome)

    def _reply(self, reply: Reply, outcome: str) -> None:
        keep = self._keep_alive and self._request.chunked_ok and not self._gateway.draining
        self._edge.transport.write(reply.encode(keep_alive=keep))
        self._finish(outcome, keep_alive=keep)

    def _headers(self) -> bytes:
        """Who served, by which path, and where the time to the first token went."""
        lines = b"x-request-id: %b\r\nx-pdserving-path: %b\r\n" % (self._request.request_id, self._path.encode())
        if self._prefill is not None and self._path != "local":
            lines += b"x-pdserving-prefill: %b\r\n" % self._prefill.engine.name
        if self._decode is None:
            return lines
        decode_ms = (self._first - self._asked) * 1e3 if self._first else 0.0
        return lines + b"x-pdserving-decode: %b\r\nserver-timing: prefill;dur=%.1f, decode;dur=%.1f\r\n" % (
            self._decode.engine.name,
            self._prefill_ms,
            decode_ms,
        )

    def _measure_first(self) -> None:
        self._first = now = self._gateway.wheel.clock()
        metrics = self._gateway.metrics
        metrics.ttft.observe(now - self._started)
        metrics.decode_wait.observe(now - self._asked)

    # ---- the client and the clock

    def client_writable(self, *, writable: bool) -> None:
        if self._leg is None:
            return
        if writable:
            self._leg.resume()
        else:
            self._leg.pause()

    def interrupted(self) -> None:
        self._run_out("the proxy was stopped")

    def _run_out(self, why: str) -> None:
        if self._sent:
            self._break_stream(why)
        else:
            text = f"The answer was not generated: {why}. Nothing was sent; try again."
            self._fail(Failure(504, "timeout", text), "timeout")

    def _wait(self, now: float, seconds: float) -> None:
        self._gateway.wheel.arm(self._edge.deadline, min(now + seconds, self._ends_at))

    def _drop_leg(self) -> None:
        leg, self._leg = self._leg, None
        if leg is not None:
            leg.cancel()

    def _finish(self, outcome: str, *, keep_alive: bool) -> None:
        """Count the request, once, and give the connection back."""
        if self._done:
            return
        self._done = True
        self._drop_leg()
        gateway = self._gateway
        gateway.in_flight -= 1
        self._finished(outcome)
        gateway.metrics.requests.add(self._api.name, self._path, outcome)
        gateway.metrics.duration.observe(gateway.wheel.clock() - self._started)
        if not self._edge.transport.is_closing():
            self._edge.finish(keep_alive=keep_alive)

    def _finished(self, outcome: str) -> None:
        """For what else a session holds."""

    def client_left(self) -> None:
        raise NotImplementedError

    def expired(self) -> None:
        raise NotImplementedError
