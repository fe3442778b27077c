"""A proxy and engines on loopback, in the test's own loop, with a clock that the test moves."""

import asyncio
import contextlib
import json
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvloop
from hypothesis import HealthCheck, settings

from pdserving.proxy.app import Address, App, Source
from pdserving.proxy.config import Config
from pdserving.proxy.discovery import parse_engine
from tests.proxy.engine import Fabric, FakeEngine

settings.register_profile("proxy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("proxy")  # a busy machine is no failure

PATIENCE = 10.0
"""Real seconds until a test gives up; never waited for when the code is right."""


class Clock:
    """Real time plus what the test skipped."""

    def __init__(self) -> None:
        self.skipped = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.skipped


async def until(condition: Callable[[], Any], what: str = "condition") -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - what it waits for has no event
            await asyncio.sleep(0.001)
    assert condition(), what


@dataclass
class Proxy:
    app: App
    clock: Clock
    client: httpx.AsyncClient
    port: int
    admin_port: int
    prefills: list[FakeEngine]
    decodes: list[FakeEngine]

    def skip(self, seconds: float) -> None:
        """Let time pass for every deadline."""
        self.clock.skipped += seconds
        self.app.wheel.advance()

    async def chat(self, text: str = "a b c", *, path: str = "/v1/chat/completions", **fields: Any) -> httpx.Response:
        body = {"model": "tiny", "messages": [{"role": "user", "content": text}], **fields}
        return await self.client.post(path, json=body)

    async def admin(self, path: str) -> Any:
        return (await self.client.get(f"http://127.0.0.1:{self.admin_port}{path}")).json()

    @property
    def outcomes(self) -> dict[tuple[str, str], int]:
        """By path and outcome."""
        return {(path, outcome): n for (_, path, outcome), n in self.app.gateway.metrics.requests.values.items()}

    async def settled(self) -> None:
        """Until every engine that is up can be used."""
        usable = len(self.prefills), len(self.decodes)
        lanes = self.app.pool.lanes
        await until(
            lambda: (
                (
                    sum(len(lane.prefills) for lane in self.app.pool.lanes),
                    sum(len(lane.decodes) for lane in self.app.pool.lanes),
                )
                == usable
            ),
            str(lanes),
        )


Launch = Callable[..., Awaitable[Proxy]]


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loop that proxies run on."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
async def launch() -> AsyncIterator[Launch]:
    """``await launch(prefills=1, decodes=1, **config)``."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(prefills: int = 1, decodes: int = 1, **config: Any) -> Proxy:
            fabric = Fabric()
            p = [await FakeEngine("prefill", fabric).start() for _ in range(prefills)]
            d = [await FakeEngine("decode", fabric).start() for _ in range(decodes)]
            for engine in (*p, *d):
                stack.push_async_callback(engine.stop)
            clock = Clock()
            sightings = [parse_engine(e.url, e.role, e.bootstrap_port) for e in (*p, *d)]
            app = App(Config(**{"drain_timeout": 0.2, **config}), Source(engines=sightings), clock)
            main, admin = await app.start(Address("127.0.0.1", 0), Address("127.0.0.1", 0))
            stack.push_async_callback(app.stop)
            client = httpx.AsyncClient(base_url=f"http://127.0.0.1:{main.port}", timeout=PATIENCE)
            await stack.enter_async_context(client)
            proxy = Proxy(app, clock, client, main.port, admin.port, p, d)
            await proxy.settled()
            return proxy

        yield start


class Secret:
    """A mounted Secret, swapped as the kubelet does it."""

    def __init__(self, folder: Path, **files: str) -> None:
        self.folder, self.version = folder, 0
        self.put(**files)

    def put(self, **files: str) -> None:
        self.version += 1
        new = self.folder / f"..{self.version}"
        new.mkdir()
        for name, text in files.items():
            (new / name).write_text(text)
            if not self.path(name).is_symlink():
                self.path(name).symlink_to(f"..data/{name}")
        (self.folder / "..tmp").symlink_to(new.name)
        (self.folder / "..tmp").rename(self.folder / "..data")

    def path(self, name: str) -> Path:
        return self.folder / name


@dataclass
class RawClient:
    """Bytes in, bytes out."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def read_all(self) -> bytes:
        async with asyncio.timeout(PATIENCE):
            return await self.reader.read()

    async def read_answer(self) -> tuple[int, dict[str, str], bytes]:
        async with asyncio.timeout(PATIENCE):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
            first, *lines = head[:-4].split("\r\n")
            headers = dict(line.split(": ", 1) for line in lines)
            body = await self.reader.readexactly(int(headers.get("content-length", 0)))
            return int(first.split()[1]), headers, body


@contextlib.asynccontextmanager
async def connect(proxy: Proxy, tls: ssl.SSLContext | None = None) -> AsyncIterator[RawClient]:
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port, ssl=tls)
    try:
        yield RawClient(reader, writer)
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


def events(text: str) -> list[Any]:
    """The JSON of each server-sent event; ``[DONE]`` as text."""
    payloads = [line[6:] for line in text.splitlines() if line.startswith("data: ")]
    return [data if data == "[DONE]" else json.loads(data) for data in payloads]


def words(text: str) -> list[str]:
    """The words of a stream."""
    pieces = [event for event in events(text) if event != "[DONE]" and "choices" in event]
    return [piece["choices"][0]["delta"]["content"] for piece in pieces if piece["choices"][0]["delta"]["content"]]


def post(body: bytes, path: str = "/v1/chat/completions", extra: str = "") -> bytes:
    head = f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n{extra}\r\n"
    return head.encode() + body


def chat_body(text: str = "a b c", **fields: Any) -> bytes:
    return json.dumps({"model": "tiny", "messages": [{"role": "user", "content": text}], **fields}).encode()
