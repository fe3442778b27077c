"""Pods by list and watch against an API server that ends watches, forgets versions and fails."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Collection, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from pdserving.kube import podwatch
from tests.proxy.conftest import until

Script = list[tuple[int, list[Any]]]


class FakeApi:
    """Answers each GET with the next of ``lists`` or ``watches``; a watch stays open when its script ends in None."""

    def __init__(self) -> None:
        self.lists: list[tuple[int, Any]] = []
        self.watches: Script = []
        self.requests: list[str] = []
        self.port = 0
        self._tasks: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks[asyncio.create_task(self.serve(reader, writer))] = writer

    async def close(self) -> None:
        for task, writer in self._tasks.items():
            task.cancel()
            writer.transport.abort()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                self.requests.append(head.split(" ")[1])
                if "watch=true" in head:
                    await self.watch(writer)
                else:
                    status, content = self.lists.pop(0) if len(self.lists) > 1 else self.lists[0]
                    body = json.dumps(content).encode()
                    writer.write(b"HTTP/1.1 %d X\r\ncontent-length: %d\r\n\r\n%b" % (status, len(body), body))
        writer.close()

    async def watch(self, writer: asyncio.StreamWriter) -> None:
        status, events = self.watches.pop(0) if self.watches else (200, [None])
        writer.write(b"HTTP/1.1 %d X\r\ntransfer-encoding: chunked\r\n\r\n" % status)
        for event in events:
            if event is None:
                await asyncio.Event().wait()
            line = json.dumps(event).encode() + b"\n"
            for piece in (line[:50], line[50:]):
                writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        writer.write(b"0\r\n\r\n")


def pod(name: str, version: str = "1", **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": version, "labels": labels}}


def listed(*names: str, version: str = "10") -> tuple[int, Any]:
    return 200, {"metadata": {"resourceVersion": version}, "items": [pod(name) for name in names]}


def event(kind: str, name: str, version: str = "11") -> dict[str, Any]:
    return {"type": kind, "object": pod(name, version)}


@pytest.fixture
async def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakeApi]:
    fake = FakeApi()
    server = await asyncio.start_server(fake.accept, "127.0.0.1", 0)
    fake.port = server.sockets[0].getsockname()[1]
    config = {
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": f"http://127.0.0.1:{fake.port}"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }  # fmt: skip
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(config))
    monkeypatch.setenv("KUBECONFIG", str(path))
    monkeypatch.setattr(podwatch, "BACKOFF_FIRST", 0.01)
    yield fake
    server.close()
    await fake.close()


@contextlib.asynccontextmanager
async def watching(seen: list[set[str]]) -> AsyncIterator[None]:
    def publish(pods: Collection[Mapping[str, Any]]) -> None:
        seen.append({pod["metadata"]["name"] for pod in pods})

    task = asyncio.create_task(podwatch.watch_pods("ns", "a=b", publish))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_pods_come_and_go(api: FakeApi) -> None:
    api.lists = [listed("a", "b")]
    api.watches = [(200, [event("ADDED", "c"), event("DELETED", "a"), event("MODIFIED", "b"), None])]
    seen: list[set[str]] = []
    async with watching(seen):
        await until(lambda: len(seen) == 4)
    assert seen == [{"a", "b"}, {"a", "b", "c"}, {"b", "c"}, {"b", "c"}]
    assert all("labelSelector=a%3Db" in request for request in api.requests)


async def test_a_watch_that_ends_goes_on_where_it_was(api: FakeApi) -> None:
    bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "77"}}}
    api.lists = [listed("a")]
    api.watches = [(200, [bookmark]), (200, [event("ADDED", "b"), None])]
    seen: list[set[str]] = []
    async with watching(seen):
        await until(lambda: seen[-1:] == [{"a", "b"}])
    assert [request.count("watch=true") for request in api.requests] == [0, 1, 1]
    assert "resourceVersion=77" in api.requests[2]


@pytest.mark.parametrize("gone", ["status", "event"])
async def test_a_forgotten_version_lists_again_and_vanished_pods_vanish(api: FakeApi, gone: str) -> None:
    error = {"type": "ERROR", "object": {"code": 410, "message": "too old"}}
    api.lists = [listed("a", "b"), listed("b")]
    api.watches = [(410, []) if gone == "status" else (200, [error])]
    seen: list[set[str]] = []
    async with watching(seen):
        await until(lambda: len(seen) == 2)
    assert seen == [{"a", "b"}, {"b"}]


async def test_what_is_known_stays_while_the_server_fails(api: FakeApi) -> None:
    api.lists = [listed("a"), (500, {}), (403, {}), listed("a", "b")]
    api.watches = [(500, []), (200, [None])]
    seen: list[set[str]] = []
    async with watching(seen):
        await until(lambda: len(seen) == 2)
    assert seen == [{"a"}, {"a", "b"}], "no empty set in between"


async def test_a_pod_longer_than_a_read(api: FakeApi) -> None:
    long = event("ADDED", "long")
    long["object"]["metadata"]["annotations"] = {"a": "x" * 300_000}
    api.lists = [listed()]
    api.watches = [(200, [long, None])]
    seen: list[set[str]] = []
    async with watching(seen):
        await until(lambda: seen[-1:] == [{"long"}])
