"""Freeing P's blocks when nobody will fetch them, long before the abort timeout.

vLLM 0.32/0.33 gives the proxy no call for that, but two ways that end in one:

* A D that rejects a request with transfer parameters has P free the blocks (vLLM's cleanup of rejected KV transfer
  requests, an empty pull). So for a transfer that no D was ever asked for, a D is sent a request that it must reject:
  a stream of beam search, for a model that does not exist. It costs D nothing.
* A D that was asked fetches or releases them by itself once the request is in its engine. Only between the two, while
  D tokenizes, a closed connection is forgotten (vLLM issue 50425). So D's leg lives a moment longer than the client.

Never for a transfer that a D may already have seen: a pull for an unknown id occupies one of P's sender slots for the
whole abort timeout.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from pdserving.proxy.deadlines import Deadline
from pdserving.proxy.decode_leg import DecodeLeg
from pdserving.proxy.http.framing import Head
from pdserving.proxy.http.upstream import CONNECT, Leg
from pdserving.proxy.pool import Engine
from pdserving.proxy.rewrite import Transfer, build_decode_params
from pdserving.proxy.routing import choose_decode_in

if TYPE_CHECKING:
    from pdserving.proxy.gateway import Gateway

LINGER: Final = 1.0
"""From asking D on; tokenizing takes less."""
REJECTED: Final = {
    "model": "pdserving-release",
    "prompt": [0],
    "max_tokens": 1,
    "stream": True,
    "use_beam_search": True,
}


def release(gateway: "Gateway", transfer: Transfer, lane: str, failed: tuple[Engine, ...]) -> None:
    """Have some D of the lane tell P that the blocks of ``transfer`` are not wanted."""
    chosen = choose_decode_in(gateway.pool.lanes, lane, gateway.wheel.clock(), failed, ())
    if chosen is None:
        gateway.metrics.releases.add("no_decode_engine")
        return
    engine = chosen[0].engine
    endpoint = engine.endpoint
    body = msgspec.json.encode({**REJECTED, "kv_transfer_params": build_decode_params(transfer)})
    head = b"POST /v1/completions HTTP/1.1\r\nhost: %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    again = partial(release, gateway, transfer, lane, (*failed, engine))
    endpoint.send(head % (endpoint.authority, len(body)), (body,), _Release(gateway, engine, again))


class _Release(Leg):
    __slots__ = ("_again", "_engine", "_gateway", "_status")

    def __init__(self, gateway: "Gateway", engine: Engine, again: Callable[[], None]) -> None:
        super().__init__()
        self._gateway = gateway
        self._engine = engine
        self._again = again
        self._status = 0

    def received_head(self, head: Head) -> None:
        self._status = head.status

    def received_body(self, data: bytes, boundary: int) -> None:
        """Only the status counts."""

    def ended(self) -> None:
        self._gateway.metrics.releases.add("done" if 400 <= self._status < 500 else f"status {self._status}")

    def broken(self, cause: str) -> None:
        self._gateway.leg_failed(self._engine, cause)
        if cause == CONNECT:
            self._again()
        else:
            self._gateway.metrics.releases.add(cause)


class Orphan:
    """Takes over D's leg from a session whose client left, until D's first byte or ``until``."""

    __slots__ = ("_deadline", "_gateway", "_leg")

    def __init__(self, gateway: "Gateway", leg: DecodeLeg, until: float) -> None:
        self._gateway = gateway
        self._leg = leg
        self._deadline = Deadline(leg.cancel)
        leg.session = self
        gateway.wheel.arm(self._deadline, until)

    def start_stream(self, leg: DecodeLeg, data: bytes) -> None:
        self._gateway.wheel.cancel(self._deadline)
        leg.cancel()

    def relay(self, data: bytes) -> None:
        """Never reached: the leg is cancelled by its first byte."""

    def finish_stream(self) -> None:
        self._gateway.wheel.cancel(self._deadline)

    def decode_answered(self, leg: DecodeLeg, body: bytes) -> None:
        self._gateway.wheel.cancel(self._deadline)

    def decode_failed(self, cause: str) -> None:
        self._gateway.wheel.cancel(self._deadline)
