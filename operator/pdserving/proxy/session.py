"""One request: prefill first, then decode, and every way in which that can go wrong before the client got a byte.

The states follow each other by callbacks of the two legs; there is no Task. What may be tried again, and with which
transfer, follows from what vLLM does with P's blocks:

* D was never reached: P still holds them, another D may fetch them by the same transfer id.
* D refused or failed: it may have fetched or released them (a D that rejects a request has P free them), so the prompt
  is prefilled again under a new id. A second pull under the old one would wait for the abort timeout.
* Nobody will fetch them: `release` has a D tell P so.
"""

from typing import TYPE_CHECKING, Final

from pdserving.proxy import rewrite
from pdserving.proxy.access_log import Entry
from pdserving.proxy.answering import Answering
from pdserving.proxy.apis import Api
from pdserving.proxy.decode_leg import DecodeLeg
from pdserving.proxy.errors import BadRequestError, Failure
from pdserving.proxy.http.edge import ClientEdge
from pdserving.proxy.http.request import Request, make_id
from pdserving.proxy.http.upstream import CONNECT
from pdserving.proxy.pool import Engine, Target
from pdserving.proxy.prefill_leg import PrefillLeg, parse_answer
from pdserving.proxy.release import LINGER, Orphan, release
from pdserving.proxy.routing import Choice, choose_decode, choose_decode_in, choose_prefill

if TYPE_CHECKING:
    from pdserving.proxy.gateway import Gateway

TIMEOUT: Final = "timeout"
RETRY_AFTER: Final = 1
RETRYABLE: Final = frozenset((408, 425, 429))
"""Statuses below 500 that speak of the engine, not of the request."""


class Session(Answering):
    __slots__ = (
        "_decode_tries", "_failed_decodes", "_failed_prefills", "_lane", "_local", "_prefill_tries", "_prompt",
        "_tokens", "_transfer",
    )  # fmt: skip

    def __init__(self, gateway: "Gateway", edge: ClientEdge, request: Request, api: Api) -> None:
        super().__init__(gateway, edge, request, api)
        self._transfer: rewrite.Transfer | None = None
        self._failed_prefills: tuple[Engine, ...] = ()
        self._failed_decodes: tuple[Engine, ...] = ()
        self._prefill_tries = self._decode_tries = 0
        self._lane = ""
        self._tokens = 0
        self._local = False

    def start(self) -> None:
        try:
            self._prompt = rewrite.parse(self._api.dialect, self._request.body)
        except BadRequestError as error:
            self._fail(error.failure, "bad_request")
            return
        self._request.body = b""
        self._streamed = self._prompt.streamed
        self._tokens = self._prompt.estimate
        if self._prompt.local_reason is not None:
            self._serve_locally(self._prompt.local_reason)
        elif self._tokens < self._gateway.config.local_prefill_below_tokens:
            self._serve_locally("short")
        else:
            self._ask_prefill()

    # ---- prefill

    def _ask_prefill(self) -> None:
        gateway = self._gateway
        now = gateway.wheel.clock()
        chosen = choose_prefill(gateway.pool.lanes, now, self._failed_prefills)
        if chosen is None:
            self._no_prefill("no prefill engine is ready")
            return
        target, reason = chosen
        gateway.metrics.choices.add("prefill", reason)
        self._lane, self._prefill, self._asked = target.engine.seen.lane, target, now
        self._transfer = rewrite.Transfer(make_id(), target.engine_id, target.engine.bootstrap_url)
        body = rewrite.build_prefill_body(self._api.dialect, self._prompt, self._transfer.transfer_id)
        self._leg = leg = PrefillLeg(self, target, self._tokens)
        self._wait(now, gateway.config.prefill_timeout)
        target.engine.endpoint.send(self._head(target, sum(map(len, body)), target.header), body, leg)

    def prefill_answered(self, leg: PrefillLeg, body: bytes) -> None:
        self._leg = None
        status = leg.status
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
        self._tokens = answer.prompt_tokens or self._tokens
        self._cached = answer.cached_tokens
        if leg.established > leg.target.engine.verified:
            self._confirm(leg.target.engine)
        else:
            self._ask_decode()

    def _confirm(self, engine: Engine) -> None:
        """P answered on a connection younger than its engine id; go on when the id was read again."""
        engine.waiting.append(self._confirmed)
        self._gateway.epochs.recheck(engine)

    def _confirmed(self) -> None:
        if not self._done:
            self._ask_decode()

    def prefill_failed(self, cause: str) -> None:
        self._leg = None
        target = self._prefill
        assert target is not None  # noqa: S101
        self._gateway.leg_failed(target.engine, cause)
        self._failed_prefills += (target.engine,)
        if self._prefill_tries < self._gateway.config.max_retries:
            self._prefill_tries += 1
            self._gateway.metrics.retries.add("prefill")
            self._path = "retry"
            self._ask_prefill()
        else:
            self._no_prefill(f"prefill engine {target.engine.seen.pod} failed ({cause})")

    def _no_prefill(self, why: str) -> None:
        gateway, config = self._gateway, self._gateway.config
        if not gateway.pool.ready:
            self._no_decode()
        elif config.on_prefill_failure == "Fail":
            self._refuse_prefill(f"{why}, and the group's onPrefillFailure is Fail")
        elif gateway.local_prefills >= config.max_local_prefills:
            self._refuse_prefill(f"{why}, and decode engines already compute as many prompts as allowed")
        else:
            gateway.local_prefills += 1
            self._local = True
            self._serve_locally("prefill_failed")

    def _refuse_prefill(self, why: str) -> None:
        text = f"The prompt was not processed: {why}. Try again in a moment."
        self._fail(Failure(503, "prefill_unavailable", text, RETRY_AFTER), "prefill_unavailable")

    # ---- decode

    def _serve_locally(self, reason: str) -> None:
        """The plain request to D, which computes the prompt itself."""
        self._gateway.metrics.local.add(reason)
        self._path = "local"
        self._transfer = None
        self._cached = None
        self._ask_decode()

    def _ask_decode(self) -> None:
        gateway = self._gateway
        now = gateway.wheel.clock()
        if self._transfer is not None and self._prefill is not None and not self._prefill.valid:
            gateway.metrics.leg_failures.add("prefill", self._prefill.engine.seen.pod, "restarted")
            self._restart("the prefill engine was restarted")
            return
        chosen = self._choose_decode(now)
        if chosen is None:
            self._release()
            self._no_decode()
            return
        target, reason = chosen
        gateway.metrics.choices.add("decode", reason)
        self._decode, self._asked = target, now
        body = rewrite.build_decode_body(self._prompt, self._transfer)
        self._leg = leg = DecodeLeg(self, target, self._tokens)
        # Only a stream has an early first byte: any other answer comes when all of it was generated.
        self._wait(now, gateway.config.first_byte_timeout if self._streamed else gateway.config.request_timeout)
        target.engine.endpoint.send(self._head(target, sum(map(len, body)), b""), body, leg)

    def _choose_decode(self, now: float) -> Choice | None:
        lanes = self._gateway.pool.lanes
        if self._transfer is None or self._prefill is None:
            return choose_decode(lanes, now, self._failed_decodes)
        quarantined = self._gateway.pairs.blocked(self._prefill.engine, now)
        return choose_decode_in(lanes, self._lane, now, self._failed_decodes, quarantined)

    def decode_failed(self, cause: str) -> None:
        self._leg = None
        target = self._decode
        assert target is not None  # noqa: S101
        gateway = self._gateway
        gateway.leg_failed(target.engine, cause)
        why = f"decode engine {target.engine.seen.pod} failed ({cause})"
        if self._sent:
            self._break_stream(why)
            return
        if self._transfer is not None and self._prefill is not None:
            gateway.pair_failed(self._prefill.engine, target.engine, cause)
        if not target.valid or len(gateway.pool.decodes) > 1:
            self._failed_decodes += (target.engine,)
        if cause == CONNECT and self._decode_tries < gateway.config.max_retries:
            self._decode_tries += 1
            gateway.metrics.retries.add("decode")
            self._path = "retry" if self._transfer else self._path
            self._ask_decode()
        else:
            if cause == CONNECT:
                self._release()
            self._restart(why)

    def _restart(self, why: str) -> None:
        """From the prompt on, while tries are left."""
        if self._decode_tries >= self._gateway.config.max_retries:
            status = 504 if why.endswith(f"({TIMEOUT})") else 502
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

    def _release(self) -> None:
        transfer, self._transfer = self._transfer, None
        if transfer is not None and self._prefill is not None and self._prefill.valid:
            release(self._gateway, transfer, self._lane, self._failed_decodes)

    def start_stream(self, leg: DecodeLeg, data: bytes) -> None:
        super().start_stream(leg, data)
        del self._prompt  # nothing is tried again from here; a stream of an hour must not hold its prompt

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

    # ---- the client and the clock

    def client_left(self) -> None:
        leg = self._leg
        now = self._gateway.wheel.clock()
        if isinstance(leg, DecodeLeg) and self._transfer and not self._sent and now - self._asked < LINGER:
            self._leg = None
            Orphan(self._gateway, leg, self._asked + LINGER)
        elif leg is None:
            self._release()
        self._finish("client_left", keep_alive=False)

    def expired(self) -> None:
        leg = self._leg
        self._drop_leg()
        if self._gateway.wheel.clock() >= self._ends_at:
            self._run_out("the request's time limit was reached")
        elif leg is None or isinstance(leg, PrefillLeg):
            self.prefill_failed(TIMEOUT)
        elif self._sent and not self._edge.writable:
            self._edge.transport.abort()
            self._finish("client_slow", keep_alive=False)
        else:
            self.decode_failed(TIMEOUT)

    def _finished(self, outcome: str) -> None:
        self._log(outcome)
        if self._local:
            self._gateway.local_prefills -= 1
        if self._first and self._transfer is not None and self._prefill is not None and self._decode is not None:
            self._gateway.pairs.succeeded(self._prefill.engine, self._decode.engine)
            self._gateway.transfers.asked(self._decode.engine, self._tokens)

    def _log(self, outcome: str) -> None:
        log = self._gateway.access_log
        if log is None:
            return
        now = self._gateway.wheel.clock()
        log.add(
            Entry(
                request_id=self._request.request_id.decode(),
                api=self._api.name,
                path=self._path,
                outcome=outcome,
                prefill=self._prefill.engine.seen.pod if self._prefill is not None else "",
                decode=self._decode.engine.seen.pod if self._decode is not None else "",
                prompt_tokens=self._tokens,
                prefill_ms=round(self._prefill_ms, 3),
                first_byte_ms=round((self._first - self._started) * 1e3, 3) if self._first else 0.0,
                total_ms=round((now - self._started) * 1e3, 3),
            )
        )

    def _head(self, target: Target, size: int, extra: bytes) -> bytes:
        request = self._request
        return (
            b"POST %b HTTP/1.1\r\nhost: %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
            b"x-request-id: %b\r\n%b%b\r\n"
        ) % (self._api.path, target.engine.endpoint.authority, size, request.request_id, extra, request.forwarded)
