"""The client side towards one engine: keep-alive connections, one exchange at a time on each.

A `Leg` is called back; there is no Task, Future, queue or copy per exchange or chunk. Only dialing is a Task.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Final

from pdserving.proxy.http.framing import MAX_HEAD, Body, FramingError, Head, choose_body, parse_head

IDLE_LIMIT: Final = 4.0
"""vLLM's uvicorn closes a connection after 5 s without a request. Ours must not race with that: a request that was
cut may have been started, so it is never sent again from here."""
JOIN_BELOW: Final = 32 * 1024
"""A copy is cheaper than a second buffer for the kernel up to about here."""

Payload = Sequence[bytes | bytearray | memoryview]
"""The pieces of one body."""

CONNECT, RESET, MALFORMED = "connect", "reset", "malformed"
"""Why a leg broke: never reached the engine, was cut, or is no HTTP."""


class Leg:
    """One exchange with one engine. Subclasses get the answer; `broken` or `ended` comes once, unless cancelled."""

    __slots__ = ("cancelled", "connection", "established")

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self.cancelled = False
        self.established = 0.0
        """When the connection was made: the process that answers has lived since then."""

    def received_head(self, head: Head) -> None:
        raise NotImplementedError

    def received_body(self, data: bytes, boundary: int) -> None:
        """``data`` with its chunk framing; up to ``boundary`` it is whole chunks."""
        raise NotImplementedError

    def ended(self) -> None:
        raise NotImplementedError

    def answered(self, head: Head, body: bytes) -> None:
        """The whole answer in one piece, as most come that are not streamed: instead of the three above."""
        self.received_head(head)
        if body:
            self.received_body(body, len(body))
        if not self.cancelled:
            self.ended()

    def broken(self, cause: str) -> None:
        raise NotImplementedError

    def cancel(self) -> None:
        """Forget the exchange; the engine sees its connection close and aborts the request."""
        self.cancelled = True
        if self.connection is not None:
            self.connection.drop()

    def pause(self) -> None:
        if self.connection is not None and self.connection.transport is not None:
            self.connection.transport.pause_reading()

    def resume(self) -> None:
        if self.connection is not None and self.connection.transport is not None:
            self.connection.transport.resume_reading()


class Connection(asyncio.Protocol):
    __slots__ = ("_body", "_buffer", "_head", "endpoint", "established", "idle_since", "leg", "transport")

    def __init__(self, endpoint: "Endpoint") -> None:
        self.endpoint = endpoint
        self.transport: asyncio.Transport | None = None
        self.leg: Leg | None = None
        self.established = self.idle_since = endpoint.clock()
        self._head: Head | None = None
        self._body: Body | None = None
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def start(self, head: bytes, body: Payload, leg: Leg) -> None:
        self.leg, leg.connection = leg, self
        leg.established = self.established
        assert self.transport is not None  # noqa: S101 - made before it is used or idle
        if len(body) == 1 and len(body[0]) < JOIN_BELOW:
            self.transport.write(head + body[0])
        else:
            self.transport.writelines((head, *body))

    def data_received(self, data: bytes) -> None:
        leg = self.leg
        if leg is None:  # an answer nobody asked for
            self.drop()
            return
        try:
            if self._body is not None or self._buffer or not self._receive_whole(leg, data):
                self._receive(leg, data)
        except FramingError:
            self.drop()
            leg.broken(MALFORMED)

    def _receive_whole(self, leg: Leg, data: bytes) -> bool:
        end = data.find(b"\r\n\r\n")
        if end < 0:
            return False
        head = parse_head(data[: end + 2])
        if head.length != len(data) - end - 4 or head.status < 200:
            return False
        self._release(leg, reusable=head.keep_alive)
        leg.answered(head, data[end + 4 :])
        return True

    def _receive(self, leg: Leg, data: bytes) -> None:
        body = self._body
        if body is None:
            rest = self._receive_head(leg, data)
            body = self._body
            if body is None or self.leg is not leg:
                return
            if not rest and not body.done:
                return
            data = rest
        used = body.feed(data)
        surplus = used < len(data)
        if data:
            leg.received_body(data[:used] if surplus else data, body.boundary)
        if body.done and self.leg is leg:
            self._complete(leg, reusable=not surplus)

    def _receive_head(self, leg: Leg, data: bytes) -> bytes:
        data = self._buffer + data if self._buffer else data
        end = data.find(b"\r\n\r\n")
        while end >= 0:
            head = parse_head(data[: end + 2])
            data = data[end + 4 :]
            if head.status >= 200:
                self._buffer = b""
                self._head, self._body = head, choose_body(head)
                leg.received_head(head)
                return data
            end = data.find(b"\r\n\r\n")
        if len(data) > MAX_HEAD:
            raise FramingError("endless head")
        self._buffer = data
        return b""

    def _complete(self, leg: Leg, *, reusable: bool) -> None:
        reusable = reusable and self._head is not None and self._head.keep_alive
        self._body = self._head = None
        self._release(leg, reusable=reusable)
        leg.ended()

    def _release(self, leg: Leg, *, reusable: bool) -> None:
        self.leg = leg.connection = None
        transport = self.transport
        if reusable and transport is not None and not transport.get_write_buffer_size():
            transport.resume_reading()
            self.endpoint.put_back(self)
        else:
            self.drop()

    def drop(self) -> None:
        if self.leg is not None:
            self.leg.connection = None
            self.leg = None
        if self.transport is not None:
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.endpoint.forget(self)
        leg, self.leg = self.leg, None
        if leg is None:
            return
        leg.connection = None
        if self._body is not None and self._head is not None and self._head.length is None and not self._head.chunked:
            leg.ended()
        else:
            leg.broken(RESET)


class Endpoint:
    """One engine's address: its idle connections (last in, first out) and how to make more."""

    __slots__ = (
        "_connect_timeout",
        "_tasks",
        "authority",
        "clock",
        "closed",
        "dialed",
        "host",
        "idle",
        "loop",
        "open",
        "port",
    )

    def __init__(self, host: str, port: int, loop: asyncio.AbstractEventLoop, connect_timeout: float) -> None:
        self.host, self.port, self.loop = host, port, loop
        self.authority = f"[{host}]:{port}".encode() if ":" in host else f"{host}:{port}".encode()
        self.idle: dict[Connection, None] = {}
        """In order of use. A dict, so that an engine that closes thousands at once costs no search for each."""
        self.open = 0
        self.closed = False
        self.clock: Callable[[], float] = time.monotonic
        self.dialed: Callable[[], None] | None = None
        """Called for each new connection."""
        self._connect_timeout = connect_timeout
        self._tasks: set[asyncio.Task[None]] = set()

    def send(self, head: bytes, body: Payload, leg: Leg) -> None:
        """Begin an exchange; the leg is called back, never from within this call."""
        idle, fresh = self.idle, self.clock() - IDLE_LIMIT
        while idle:
            connection, _ = idle.popitem()
            if connection.idle_since > fresh:
                connection.start(head, body, leg)
                return
            connection.drop()
        task = self.loop.create_task(self._dial(head, body, leg))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _dial(self, head: bytes, body: Payload, leg: Leg) -> None:
        try:
            async with asyncio.timeout(self._connect_timeout):
                _, connection = await self.loop.create_connection(lambda: Connection(self), self.host, self.port)
        except (OSError, TimeoutError):
            if not leg.cancelled:
                leg.broken(CONNECT)
            return
        self.open += 1
        if self.dialed is not None:
            self.dialed()
        if leg.cancelled:
            self.put_back(connection)
        else:
            connection.start(head, body, leg)

    def put_back(self, connection: Connection) -> None:
        if self.closed:
            connection.drop()
            return
        connection.idle_since = self.clock()
        self.idle[connection] = None

    def forget(self, connection: Connection) -> None:
        self.open -= 1
        self.idle.pop(connection, None)

    def close(self) -> None:
        """Drop idle connections, and the others as they become idle: the engine is gone."""
        self.closed = True
        while self.idle:
            self.idle.popitem()[0].drop()
