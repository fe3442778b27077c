"""Routes that need no pair of engines: the request goes to one decode engine, its answer to the client."""

from typing import TYPE_CHECKING

from pdserving.proxy.errors import Failure
from pdserving.proxy.http.edge import ClientEdge
from pdserving.proxy.http.framing import Head, dechunk
from pdserving.proxy.http.reply import Reply, build_failure
from pdserving.proxy.http.request import Request
from pdserving.proxy.http.upstream import Leg
from pdserving.proxy.pool import Engine
from pdserving.proxy.routing import choose_decode

if TYPE_CHECKING:
    from pdserving.proxy.gateway import Gateway

TIMEOUT = 30.0


class Relay(Leg):
    """Both the client's exchange and the engine's leg; answers are small and held until complete."""

    __slots__ = ("_api", "_edge", "_engine", "_failed", "_gateway", "_head", "_parts", "_request")

    def __init__(self, gateway: "Gateway", edge: ClientEdge, request: Request, api: str) -> None:
        super().__init__()
        self._gateway, self._edge, self._request, self._api = gateway, edge, request, api
        self._engine: Engine | None = None
        self._failed: tuple[Engine, ...] = ()
        self._head: Head | None = None
        self._parts: list[bytes] = []
        edge.exchange = self

    def start(self) -> None:
        gateway = self._gateway
        now = gateway.wheel.clock()
        chosen = choose_decode(gateway.pool.lanes, now, self._failed)
        if chosen is None:
            text = "No decode engine is ready to answer; try again in a moment."
            self._fail(Failure(503, "decode_unavailable", text, 1))
            return
        self._engine, self._parts = chosen[0].engine, []
        gateway.wheel.arm(self._edge.deadline, now + TIMEOUT)
        request, endpoint = self._request, self._engine.endpoint
        head = b"%b %b HTTP/1.1\r\nhost: %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n%b\r\n" % (
            request.method, request.path, endpoint.authority, len(request.body), request.forwarded,
        )  # fmt: skip
        endpoint.send(head, (request.body,), self)

    def received_head(self, head: Head) -> None:
        self._head = head

    def received_body(self, data: bytes, boundary: int) -> None:
        self._parts.append(data)

    def ended(self) -> None:
        head, body = self._head, b"".join(self._parts)
        assert head is not None  # noqa: S101
        self._finish(Reply(head.status, dechunk(body) if head.chunked else body, head.content_type), str(head.status))

    def broken(self, cause: str) -> None:
        engine = self._engine
        assert engine is not None  # noqa: S101
        self._gateway.leg_failed(engine, cause)
        if engine in self._failed or len(self._failed) >= self._gateway.config.max_retries:
            self._fail(Failure(502, "decode_failed", f"Decode engine {engine.seen.pod} failed ({cause}); try again."))
        else:
            self._failed += (engine,)
            self.start()

    def client_left(self) -> None:
        self._gateway.metrics.requests.add(self._api, "plain", "client_left")
        self.cancel()

    def client_writable(self, *, writable: bool) -> None:
        """Nothing is relayed piece by piece."""

    def expired(self) -> None:
        self.cancel()
        self._fail(Failure(504, "timeout", f"No answer came within {TIMEOUT:g} s."))

    def interrupted(self) -> None:
        self.cancel()
        self._fail(Failure(503, "stopping", "The proxy was stopped; try again.", 1))

    def _fail(self, failure: Failure) -> None:
        self._finish(build_failure(failure, self._request.path), failure.code)

    def _finish(self, reply: Reply, outcome: str) -> None:
        self._gateway.metrics.requests.add(self._api, "plain", outcome)
        self._edge.reply(reply, self._request)
