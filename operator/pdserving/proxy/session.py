"""One request from its body to its last byte: prefill first, then decode, and every way in which that can end.

The states follow each other by callbacks of the two legs; there is no Task. Whatever happens, `_finish` runs once,
counts the request under one outcome and gives the connection back.
"""

import secrets
from typing import TYPE_CHECKING, Final

from pdserving.proxy import rewrite
from pdserving.proxy.apis import Api
from pdserving.proxy.decode_leg import DecodeLeg
from pdserving.proxy.errors import BadRequestError, Failure
from pdserving.proxy.http.edge import ClientEdge
from pdserving.proxy.http.framing import LAST_CHUNK, Head, chunk, dechunk
from pdserving.proxy.http.reply import Reply, build_failure, build_head
from pdserving.proxy.http.request import Request
from pdserving.proxy.http.upstream import CONNECT
from pdserving.proxy.pool import Engine, Target
from pdserving.proxy.prefill_leg import PrefillLeg, parse_answer
from pdserving.proxy.routing import choose, choose_decode, choose_prefill

if TYPE_CHECKING:
    from pdserving.proxy.gateway import Gateway

TIMEOUT: Final = "timeout"
RETRY_AFTER: Final = 1
RETRYABLE: Final = frozenset((408, 425, 429))
"""Statuses below 500 that speak of the engine, not of the request."""
ERROR_IN_STREAM: Final = b'data: {"error"'


class Session:
    __slots__ = (
        "_api",
        "_asked",
        "_chunks",
        "_config",
        "_dechunk",
        "_decode",
        "_decode_tries",
        "_done",
        "_edge",
        "_ends_at",
        "_failed_d",
        "_failed_p",
        "_first",
        "_gateway",
        "_keep_alive",
        "_lane",
        "_last",
        "_leg",
        "_local",
        "_path",
        "_prefill",
        "_prefill_ms",
        "_prefill_tries",
        "_prompt",
        "_request",
        "_sent",
        "_started",
        "_stream_failed",
        "_tokens",
        "_transfer",
    )  # fmt: skip

    def __init__(self, gateway: "Gateway", edge: ClientEdge, request: Request, api: Api) -> None:
        self._gateway = gateway
        self._config = gateway.config
        self._edge = edge
        self._request = request
        self._api = api
        self._path = "pd"
        self._started = request.received
        self._ends_at = request.received + gateway.config.request_timeout
        self._leg: PrefillLeg | DecodeLeg | None = None
        self._prefill: Target | None = None
        self._decode: Target | None = None
        self._transfer: rewrite.Transfer | None = None
        self._failed_p: tuple[Engine, ...] = ()
        self._failed_d: tuple[Engine, ...] = ()
        self._prefill_tries = self._decode_tries = 0
        self._lane = ""
        self._tokens = 0
        self._asked = self._prefill_ms = self._first = self._last = 0.0
        self._chunks = 0
        self._sent = self._done = self._dechunk = self._stream_failed = self._local = False
        self._keep_alive = request.keep_alive
        edge.exchange = self
        gateway.in_flight += 1

    def start(self) -> None:
        try:
            self._prompt = rewrite.parse(self._api.dialect, self._request.body)
        except BadRequestError as error:
            self._fail(error.failure, "bad_request")
            return
        self._request.body = b""
        self._tokens = self._prompt.estimate
        if self._prompt.local_reason is not None:
            self._serve_locally(self._prompt.local_reason)
        else:
            self._ask_prefill()

    # ---- prefill

    def _ask_prefill(self) -> None:
        gateway = self._gateway
        now = gateway.wheel.clock()
        chosen = choose_prefill(gateway.pool.lanes, now, self._failed_p)
        if chosen is None:
            self._no_prefill("no prefill engine is ready")
            return
        lane, target = chosen
        self._lane, self._prefill, self._asked = lane.name, target, now
        self._transfer = rewrite.Transfer(secrets.token_hex(16), target.engine_id, target.engine.bootstrap_url)
        body = rewrite.build_prefill_body(self._api.dialect, self._prompt, self._transfer.transfer_id)
        self._leg = PrefillLeg(self, target, self._tokens)
        self._wait(now, self._config.prefill_timeout)
        target.engine.endpoint.send(self._head(target, len(body), target.header), body, self._leg)

    def prefill_answered(self, status: int, body: bytes) -> None:
        self._leg = None
        now = self._gateway.wheel.clock()
        self._prefill_ms = (now - self._asked) * 1e3
        if status >= 500 or status in RETRYABLE:
            self.prefill_failed(f"status {status}")
            return
        if status != 200:
            self._answer(status, b"application/json", body, f"prefill_{status}")
            return
        self._gateway.metrics.prefill.observe(now - self._asked)
        answer = parse_answer(body)
        if answer is None or not answer.by_length:
            self._serve_locally("prefill_ended_early")
            return
        if answer.usage is not None:
            self._tokens = answer.usage.prompt_tokens
        self._ask_decode()

    def prefill_failed(self, cause: str) -> None:
        self._leg = None
        target = self._prefill
        assert target is not None  # noqa: S101
        self._gateway.leg_failed(target.engine, cause)
        self._failed_p += (target.engine,)
        if self._prefill_tries < self._config.max_retries and self._gateway.wheel.clock() < self._ends_at:
            self._prefill_tries += 1
            self._gateway.metrics.retries.add("prefill")
            self._path = "retry"
            self._ask_prefill()
        else:
            self._no_prefill(f"prefill engine {target.engine.seen.pod} failed ({cause})")

    def _no_prefill(self, why: str) -> None:
        gateway = self._gateway
        if not gateway.pool.ready:
            self._no_decode()
        elif self._config.on_prefill_failure == "Fail":
            text = f"The prompt was not processed: {why}. Try again; the group's onPrefillFailure is Fail."
            self._fail(Failure(503, "prefill_unavailable", text, RETRY_AFTER), "prefill_unavailable")
        elif gateway.local_prefills >= self._config.max_local_prefills:
            text = f"The prompt was not processed: {why}, and decode engines already compute as many as allowed."
            self._fail(Failure(503, "prefill_unavailable", text, RETRY_AFTER), "prefill_unavailable")
        else:
            gateway.local_prefills += 1
            self._local = True
            self._serve_locally("prefill_failed")

    # ---- decode

    def _serve_locally(self, reason: str) -> None:
        """The plain request to D, which computes the prompt itself."""
        self._gateway.metrics.local.add(reason)
        self._path = "local"
        self._transfer = None
        self._ask_decode()

    def _ask_decode(self) -> None:
        gateway = self._gateway
        now = gateway.wheel.clock()
        target = self._choose_decode(now)
        if target is None:
            self._no_decode()
            return
        if self._transfer is not None and self._prefill is not None and not self._prefill.valid:
            self.decode_gone("engine id changed")
            return
        self._decode, self._asked = target, now
        body = rewrite.build_decode_body(self._prompt, self._transfer)
        self._leg = DecodeLeg(self, target, self._tokens)
        if self._prompt.streamed:
            self._wait(now, self._config.first_byte_timeout)
        else:
            gateway.wheel.arm(self._edge.deadline, self._ends_at)
        target.engine.endpoint.send(self._head(target, len(body), b""), body, self._leg)

    def _choose_decode(self, now: float) -> Target | None:
        lanes = self._gateway.pool.lanes
        if self._transfer is None:
            return choose_decode(lanes, now, self._failed_d)
        for lane in lanes:
            if lane.name == self._lane:
                return choose(lane.decodes, now, self._failed_d)
        return None

    def decode_gone(self, cause: str) -> None:
        """P was restarted after it answered: its KV cache is gone."""
        self._gateway.metrics.leg_failures.add("prefill", self._prefill.engine.seen.pod if self._prefill else "", cause)
        self._restart("the prefill engine was restarted")

    def decode_failed(self, cause: str) -> None:
        self._leg = None
        target = self._decode
        assert target is not None  # noqa: S101
        gateway = self._gateway
        gateway.leg_failed(target.engine, cause)
        if self._sent:
            self._break_stream(f"decode engine {target.engine.seen.pod} failed ({cause})")
            return
        if self._transfer is not None and self._prefill is not None:
            gateway.epochs.recheck(self._prefill.engine)
        if cause in {CONNECT, "reset"} or len(gateway.pool.decodes) > 1:
            self._failed_d += (target.engine,)
        if cause in {CONNECT, "status 503"} and self._decode_tries < self._config.max_retries:
            # D never scheduled it, so P still holds the blocks: another D may fetch them
            self._decode_tries += 1
            gateway.metrics.retries.add("decode")
            self._path = "retry" if self._transfer else self._path
            self._ask_decode()
        else:
            self._restart(f"decode engine {target.engine.seen.pod} failed ({cause})")

    def _restart(self, why: str) -> None:
        if self._decode_tries >= self._config.max_retries:
            status = 504 if why.endswith("(timeout)") else 502
            text = f"The answer was not generated: {why}. Nothing was sent; try again."
            self._fail(Failure(status, "decode_failed", text), "decode_failed")
            return
        self._decode_tries += 1
        self._gateway.metrics.retries.add("decode")
        if self._path == "local":
            self._ask_decode()
        else:
            self._path = "retry"
            self._ask_prefill()

    def _no_decode(self) -> None:
        text = "No decode engine is ready to answer; try again in a moment."
        self._fail(Failure(503, "decode_unavailable", text, RETRY_AFTER), "decode_unavailable")

    # ---- answering

    def decode_answered(self, leg: DecodeLeg, body: bytes) -> None:
        """A complete answer, not streamed."""
        head = leg.head
        assert head is not None  # noqa: S101
        if head.status >= 500 or head.status in RETRYABLE:
            self.decode_failed(f"status {head.status}")
            return
        self._leg = None
        self._measure_first()
        self._answer(head.status, head.content_type, body, "ok" if head.status == 200 else f"decode_{head.status}")

    def start_stream(self, leg: DecodeLeg, data: bytes) -> None:
        head = leg.head
        assert head is not None  # noqa: S101
        self._measure_first()
        self._sent = True
        framing = self._stream_framing(head)
        close = b"" if self._keep_alive else b"connection: close\r\n"
        text = build_head(head.status, head.content_type, framing + close, self._headers())
        self._edge.transport.write(text + b"\r\n" + (dechunk(data) if self._dechunk else data))
        self._wait(self._first, self._config.idle_timeout)
        self._last, self._chunks = self._first, 1
        if not self._edge.writable:
            leg.pause()

    def _stream_framing(self, head: Head) -> bytes:
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
        self._edge.deadline.at = min(now + self._config.idle_timeout, self._ends_at)
        if ERROR_IN_STREAM in data:
            self._stream_failed = True
        self._edge.transport.write(dechunk(data) if self._dechunk else data)

    def finish_stream(self) -> None:
        self._leg = None
        if self._chunks > 1:
            self._gateway.metrics.chunk_gap.observe((self._last - self._first) / (self._chunks - 1))
        self._finish("error_in_stream" if self._stream_failed else "ok", keep_alive=self._keep_alive)

    def _break_stream(self, why: str) -> None:
        """Say in the client's protocol that the stream is not complete; never let it look finished."""
        leg, self._leg = self._leg, None
        if leg is not None:
            leg.cancel()
        if self._prompt.streamed and (self._dechunk or self._keep_alive or self._request.chunked_ok):
            event = self._api.build_error_event(
                Failure(502, "stream_broken", f"The answer is incomplete: {why}. Send the request again.")
            )
            self._edge.transport.write(event if self._dechunk else chunk(event) + LAST_CHUNK)
            self._finish("stream_broken", keep_alive=False)
        else:
            self._edge.transport.abort()
            self._finish("stream_broken", keep_alive=False)

    def _answer(self, status: int, content_type: bytes, body: bytes, outcome: str) -> None:
        self._reply(Reply(status, body, content_type, self._headers()), outcome)

    def _fail(self, failure: Failure, outcome: str) -> None:
        self._reply(build_failure(failure, self._headers()), outcome)

    def _reply(self, reply: Reply, outcome: str) -> None:
        keep = self._keep_alive and self._request.chunked_ok and not self._gateway.draining
        self._edge.transport.write(reply.encode(keep_alive=keep))
        self._finish(outcome, keep_alive=keep)

    def _headers(self) -> bytes:
        lines = [b"x-request-id: %b\r\nx-pdserving-path: %b\r\n" % (self._request.request_id, self._path.encode())]
        if self._prefill is not None and self._path != "local":
            lines.append(b"x-pdserving-prefill: %b\r\n" % self._prefill.engine.name)
        if self._decode is not None:
            lines.append(b"x-pdserving-decode: %b\r\n" % self._decode.engine.name)
            decode_ms = (self._first - self._asked) * 1e3 if self._first else 0.0
            lines.append(b"server-timing: prefill;dur=%.1f, decode;dur=%.1f\r\n" % (self._prefill_ms, decode_ms))
        return b"".join(lines)

    def _measure_first(self) -> None:
        self._first = now = self._gateway.wheel.clock()
        metrics = self._gateway.metrics
        metrics.ttft.observe(now - self._started)
        metrics.decode_wait.observe(now - self._asked)

    # ---- the client

    def client_left(self) -> None:
        self._finish("client_left", keep_alive=False)

    def client_writable(self, *, writable: bool) -> None:
        if self._leg is None:
            return
        if writable:
            self._leg.resume()
        else:
            self._leg.pause()

    def expired(self) -> None:
        leg, self._leg = self._leg, None
        if leg is not None:
            leg.cancel()
        if self._gateway.wheel.clock() >= self._ends_at:
            self._run_out("the request's time limit was reached")
        elif isinstance(leg, PrefillLeg):
            self.prefill_failed(TIMEOUT)
        elif self._sent and not self._edge.writable:
            self._edge.transport.abort()
            self._finish("client_slow", keep_alive=False)
        else:
            self.decode_failed(TIMEOUT)

    def interrupted(self) -> None:
        """The proxy stops now."""
        self._run_out("the proxy was stopped")

    def _run_out(self, why: str) -> None:
        if self._sent:
            self._break_stream(why)
        else:
            text = f"The answer was not generated: {why}. Nothing was sent; try again."
            self._fail(Failure(504, "timeout", text), "timeout")

    def _finish(self, outcome: str, *, keep_alive: bool) -> None:
        if self._done:
            return
        self._done = True
        leg, self._leg = self._leg, None
        if leg is not None:
            leg.cancel()
        gateway = self._gateway
        gateway.in_flight -= 1
        if self._local:
            gateway.local_prefills -= 1
        gateway.metrics.requests.add(self._api.name, self._path, outcome)
        gateway.metrics.duration.observe(gateway.wheel.clock() - self._started)
        if not self._edge.transport.is_closing():
            self._edge.finish(keep_alive=keep_alive)

    def _wait(self, now: float, seconds: float) -> None:
        self._gateway.wheel.arm(self._edge.deadline, min(now + seconds, self._ends_at))

    def _head(self, target: Target, size: int, extra: bytes) -> bytes:
        request = self._request
        return (
            b"POST %b HTTP/1.1\r\nhost: %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
            b"x-request-id: %b\r\n%b%b\r\n"
        ) % (self._api.path, target.engine.endpoint.authority, size, request.request_id, extra, request.forwarded)
