"""The server side: one client connection, one request at a time, strict about what a request is.

Pipelined requests wait their turn and stop the reading of more. A client that closes its side has left: its exchange
is cancelled, as HTTP proxies commonly do.
"""

import asyncio
from collections import deque
from typing import Any, Final, Protocol

import httptools

from pdserving.proxy.config import Config
from pdserving.proxy.deadlines import Deadline, Wheel
from pdserving.proxy.errors import Failure
from pdserving.proxy.http.reply import Reply, build_failure
from pdserving.proxy.http.request import CREDENTIALS, FORWARDED, OTHERS, Request, accept_request_id
from pdserving.proxy.http.upload import LARGE, Upload
from pdserving.proxy.keys import ApiKeys, Header

CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
WRITE_LIMIT: Final = 256 * 1024
READ_SIZE: Final = 256 * 1024
"""The most that one read can bring; it may hold the end of one request and the head of the next."""
LINGER: Final = 2.0
"""After a refusal the rest of the upload is read and dropped for so long: a reset would destroy the answer."""


class Exchange(Protocol):
    """Whoever answers a request that is not answered at once."""

    def client_left(self) -> None: ...
    def client_writable(self, *, writable: bool) -> None: ...
    def expired(self) -> None: ...
    def interrupted(self) -> None: ...


class Server(Protocol):
    """Who gets the requests."""

    config: Config
    wheel: Wheel
    draining: bool
    keys: ApiKeys | None
    """Who may ask; None: everybody."""
    edges: "set[ClientEdge]"

    def serve(self, edge: "ClientEdge", request: Request) -> None:
        """Answer at once with `ClientEdge.reply`, or set `ClientEdge.exchange`, which calls `ClientEdge.finish`."""
        ...

    def rejected(self, failure: Failure) -> None:
        """A request ended before it was one."""
        ...


class RefusedError(Exception):
    """Ends parsing; the failure was answered."""


class ClientEdge(asyncio.Protocol):
    __slots__ = (
        "_body", "_busy", "_content_length", "_credentials", "_discarding", "_encoded", "_expect", "_fed", "_forwarded",
        "_head_bytes", "_hosts", "_in_head", "_parser", "_passed_on", "_queue", "_request_id", "_size", "_url",
        "deadline", "exchange", "server", "transport", "writable",
    )  # fmt: skip

    def __init__(self, server: Server) -> None:
        self.server = server
        self.transport: asyncio.Transport = None  # type: ignore[assignment]
        self.exchange: Exchange | None = None
        self.writable = True
        self.deadline = Deadline(self._expired)
        self._passed_on = FORWARDED if server.keys is None else OTHERS
        self._busy = False
        self._discarding = False
        self._queue: deque[Request] = deque()
        self._parser: Any = httptools.HttpRequestParser(self)
        self._reset()

    def _reset(self) -> None:
        self._in_head = True
        self._head_bytes = 0
        self._fed = 0
        """Bytes read for a head that is not complete; a header that never ends shows only here."""
        self._url = b""
        self._request_id = b""
        self._forwarded: list[bytes] = []
        self._credentials: tuple[Header, ...] = ()
        """Not passed on."""
        self._hosts = 0
        self._content_length: bytes | None = None
        self._encoded = False
        self._expect = False
        self._body: list[bytes] = []
        self._size = 0

    # ---- transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        self.transport.set_write_buffer_limits(WRITE_LIMIT)
        self.server.edges.add(self)
        self._wait(self.server.config.header_timeout)

    def data_received(self, data: bytes) -> None:
        if self._discarding:
            return
        try:
            self._parser.feed_data(data)
            if self._url:
                self._await_rest(len(data))
        except RefusedError:
            pass
        except httptools.HttpParserCallbackError as error:
            if not isinstance(error.__context__, RefusedError):
                raise
        except httptools.HttpParserError as error:
            self._refuse(Failure(400, "malformed_http", f"The request is not valid HTTP/1.1: {error}"))

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.server.edges.discard(self)
        self.server.wheel.cancel(self.deadline)
        self._queue.clear()
        exchange, self.exchange = self.exchange, None
        if exchange is not None:
            exchange.client_left()

    def pause_writing(self) -> None:
        self.writable = False
        if self.exchange is not None:
            self.exchange.client_writable(writable=False)

    def resume_writing(self) -> None:
        self.writable = True
        if self.exchange is not None:
            self.exchange.client_writable(writable=True)

    # ---- parser callbacks

    def on_url(self, url: bytes) -> None:
        self._url += url
        self._head_bytes += len(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        self._head_bytes += len(name) + len(value) + 4
        if name in self._passed_on:
            self._forwarded.append(b"%b: %b\r\n" % (name, value))
        elif name == b"host":
            self._hosts += 1
        elif name == b"content-length":
            self._content_length = value
        elif name == b"transfer-encoding":
            self._encoded = True
        elif name == b"x-request-id":
            self._request_id = value
        elif name == b"expect":
            self._expect = value.lower() == b"100-continue"
        elif name in CREDENTIALS:
            self._credentials += ((name, value),)

    def on_headers_complete(self) -> None:
        self._in_head = False
        if self._head_bytes > self.server.config.max_head_bytes:
            self._raise(self._head_too_large())
        keys = self.server.keys
        if keys is not None and (refusal := keys.refuse(self._url, self._credentials)) is not None:
            self._raise(refusal)
        if self._parser.should_upgrade():
            self._raise(Failure(400, "upgrade", "This server does not change protocols; send HTTP/1.1 requests."))
        if self._content_length is not None:
            self._check_length(self._content_length)
        if self._hosts != 1 and self._parser.get_http_version() == "1.1":
            self._raise(Failure(400, "bad_host", "An HTTP/1.1 request needs exactly one Host header."))
        if self._expect and not self._busy and (self._encoded or self._content_length):
            self.transport.write(CONTINUE)

    def on_body(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > self.server.config.max_body_bytes:
            self._raise(self._too_large())
        self._body.append(data)

    def on_message_complete(self) -> None:
        body = self._body
        self._complete(body[0] if len(body) == 1 else b"".join(body))

    def _complete(self, body: bytes | bytearray) -> None:
        parser = self._parser
        path, _, query = self._url.partition(b"?")
        request = Request(
            method=parser.get_method(),
            path=path,
            query=query,
            request_id=accept_request_id(self._request_id),
            forwarded=b"".join(self._forwarded),
            body=body,
            keep_alive=parser.should_keep_alive(),
            chunked_ok=parser.get_http_version() == "1.1",
            received=self.server.wheel.clock(),
        )
        self._reset()
        if self._busy:
            self._queue.append(request)
            self.transport.pause_reading()
        else:
            self._serve(request)

    # ---- answering

    def reply(self, reply: Reply, request: Request) -> None:
        """Answer at once; for requests that never became an exchange."""
        keep = request.keep_alive and request.chunked_ok and not self.server.draining
        self.transport.write(reply.encode(keep_alive=keep, with_body=request.method != b"HEAD"))
        self.finish(keep_alive=keep)

    def finish(self, *, keep_alive: bool) -> None:
        """The answer is complete: take the next request, or close."""
        self.exchange = None
        self._busy = False
        if not keep_alive or self.server.draining:
            self.close()
        elif self._queue:
            self._serve_queued()
        else:
            self._wait(self.server.config.keep_alive_timeout)

    def close(self) -> None:
        self.server.wheel.cancel(self.deadline)
        self.transport.close()

    def close_if_idle(self) -> None:
        if not self._busy and self._in_head:
            self.close()

    def interrupt(self) -> None:
        """The proxy stops now."""
        if self.exchange is not None:
            self.exchange.interrupted()
        self.close()

    def _serve(self, request: Request) -> None:
        if self.transport.is_closing():
            return
        self._busy = True
        self.server.serve(self, request)

    def _serve_queued(self) -> None:
        request = self._queue.popleft()
        self._busy = True
        if not self._queue:
            self.transport.resume_reading()
        asyncio.get_running_loop().call_soon(self._serve, request)  # not from within: thousands may be queued

    # ---- slow and refused requests

    def _await_rest(self, size: int) -> None:
        """More of this request must come: its head in one deadline, its body with one for each pause."""
        if self._in_head:
            self._fed += size
            if self._fed > self.server.config.max_head_bytes + READ_SIZE:
                self._refuse(self._head_too_large())
            elif self._fed == size and not self._busy:
                self._wait(self.server.config.header_timeout)
        elif not self._busy:
            self._wait(self.server.config.header_timeout)
            if self._content_length is not None and int(self._content_length) - self._size >= LARGE:
                self._switch(Upload(self, int(self._content_length), self._body))

    def upload_continues(self) -> None:
        if not self._discarding:
            self._wait(self.server.config.header_timeout)

    def uploaded(self, body: bytes | bytearray) -> None:
        """The parser still waits for this body: it goes, and another one reads what follows."""
        self._switch(self)
        if self._discarding:
            return
        self._complete(body)
        self._parser = httptools.HttpRequestParser(self)

    def _switch(self, protocol: asyncio.BaseProtocol) -> None:
        """To or from reading into a buffer, which a transport looks up only when it begins to read."""
        self.transport.pause_reading()
        self.transport.set_protocol(protocol)
        self.transport.resume_reading()

    def _check_length(self, value: bytes) -> None:
        if len(value) > 18 or int(value) > self.server.config.max_body_bytes:
            self._raise(self._too_large())

    def _too_large(self) -> Failure:
        limit = self.server.config.max_body_bytes
        return Failure(
            413, "body_too_large", f"The request's body is longer than this server's limit of {limit} bytes."
        )

    def _head_too_large(self) -> Failure:
        limit = self.server.config.max_head_bytes
        return Failure(
            431, "head_too_large", f"The request's head is longer than this server's limit of {limit} bytes."
        )

    def _raise(self, failure: Failure) -> None:
        self._refuse(failure)
        raise RefusedError

    def _refuse(self, failure: Failure) -> None:
        if self._discarding or self.transport.is_closing():
            return
        self.server.rejected(failure)
        if self._busy:
            self.close()
            return
        self._discarding = True
        self.transport.write(build_failure(failure, self._url).encode(keep_alive=False))
        if self.transport.can_write_eof():  # TLS can't
            self.transport.write_eof()
        self._wait(LINGER)

    def _wait(self, seconds: float) -> None:
        self.server.wheel.arm(self.deadline, self.server.wheel.clock() + seconds)

    def _expired(self) -> None:
        if self.exchange is not None:
            self.exchange.expired()
        elif self._discarding or not self._url:
            self.close()
        else:
            self._refuse(Failure(408, "request_timeout", "The request did not arrive in time; send it faster."))
