"""A small GET for the control plane, on the same connections as the requests."""

import asyncio

from pdserving.proxy.http.framing import Head, dechunk
from pdserving.proxy.http.upstream import CONNECT, Endpoint, Leg


class FetchError(Exception):
    """``refused``: nobody listens there."""

    def __init__(self, text: str, *, refused: bool = False) -> None:
        super().__init__(text)
        self.refused = refused


class _Fetch(Leg):
    __slots__ = ("_chunked", "_parts", "_status", "answer")

    def __init__(self, answer: "asyncio.Future[bytes]") -> None:
        super().__init__()
        self.answer = answer
        self._parts: list[bytes] = []
        self._status = 0
        self._chunked = False

    def received_head(self, head: Head) -> None:
        self._status, self._chunked = head.status, head.chunked

    def received_body(self, data: bytes, boundary: int) -> None:
        self._parts.append(data)

    def ended(self) -> None:
        body = b"".join(self._parts)
        if self.answer.done():
            return
        if self._status != 200:
            self.answer.set_exception(FetchError(f"answered with status {self._status}"))
        else:
            self.answer.set_result(dechunk(body) if self._chunked else body)

    def broken(self, cause: str) -> None:
        if not self.answer.done():
            text = "refuses connections" if cause == CONNECT else f"failed: {cause}"
            self.answer.set_exception(FetchError(text, refused=cause == CONNECT))


async def fetch(endpoint: Endpoint, path: bytes, *, timeout: float) -> bytes:  # noqa: ASYNC109 - the caller's deadline
    """The body of a 200; anything else raises `FetchError`."""
    leg = _Fetch(asyncio.get_running_loop().create_future())
    endpoint.send(b"GET %b HTTP/1.1\r\nhost: %b\r\naccept: */*\r\n\r\n" % (path, endpoint.authority), (b"",), leg)
    try:
        async with asyncio.timeout(timeout):
            return await leg.answer
    except TimeoutError:
        raise FetchError(f"no answer in {timeout:g} s") from None
    finally:
        if not leg.answer.done() or leg.answer.cancelled() or leg.connection is not None:
            leg.cancel()
