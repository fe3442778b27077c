"""Small requests of the proxy's own, on the same connections as those of clients."""

import asyncio
from dataclasses import dataclass

from pdserving.proxy.http.framing import Head, dechunk
from pdserving.proxy.http.upstream import CONNECT, Endpoint, Leg


class FetchError(Exception):
    """``refused``: nobody listens there."""

    def __init__(self, text: str, *, refused: bool = False, late: bool = False) -> None:
        super().__init__(text)
        self.refused = refused
        self.late = late


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes
    established: float
    """When the connection was made: the process that answered has lived since then."""


class _Fetch(Leg):
    __slots__ = ("_chunked", "_parts", "_status", "answer")

    def __init__(self, answer: "asyncio.Future[Answer]") -> None:
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
        if not self.answer.done():
            self.answer.set_result(
                Answer(self._status, dechunk(body) if self._chunked else body, established=self.established)
            )

    def broken(self, cause: str) -> None:
        if not self.answer.done():
            text = "refuses connections" if cause == CONNECT else f"failed: {cause}"
            self.answer.set_exception(FetchError(text, refused=cause == CONNECT))


async def exchange(endpoint: Endpoint, head: bytes, body: bytes, *, timeout: float) -> Answer:  # noqa: ASYNC109 - as below
    """The answer, whatever its status; `FetchError` if there is none."""
    leg = _Fetch(asyncio.get_running_loop().create_future())
    endpoint.send(head, (body,), leg)
    try:
        async with asyncio.timeout(timeout):
            return await leg.answer
    except TimeoutError:
        raise FetchError(f"no answer in {timeout:g} s", late=True) from None
    finally:
        if not leg.answer.done() or leg.answer.cancelled() or leg.connection is not None:
            leg.cancel()


async def fetch(endpoint: Endpoint, path: bytes, *, timeout: float) -> bytes:  # noqa: ASYNC109 - the caller's deadline
    """The body of a 200; anything else raises `FetchError`."""
    head = b"GET %b HTTP/1.1\r\nhost: %b\r\naccept: */*\r\n\r\n" % (path, endpoint.authority)
    answer = await exchange(endpoint, head, b"", timeout=timeout)
    if answer.status != 200:
        raise FetchError(f"answered with status {answer.status}")
    return answer.body
