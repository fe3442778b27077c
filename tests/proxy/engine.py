"""A vLLM engine with a Mooncake connector, as far as a proxy can see one, with faults on demand.

What it does follows vLLM 0.33 with MooncakeConnector: P keeps blocks for a request that ended by length; D fetches them
once, by transfer id and engine id; hostile parameters end the process. It answers with the words of the prompt, so
that a test sees whose answer came, and it remembers every body it got.
"""

import asyncio
import contextlib
import json
import uuid
import zlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
Key = tuple[str, str]


@dataclass
class Call:
    method: str
    path: str
    headers: dict[str, str]
    body: Json
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the proxy closed the connection before the answer was complete."""


@dataclass
class Fabric:
    """What connects engines: whose blocks can be fetched by which engine id."""

    holders: dict[str, "FakeEngine"] = field(default_factory=dict)


Fault = Callable[["Exchange"], "asyncio.Future[None] | Any"]


class GoneError(Exception):
    """The engine's process ended or closes the connection."""


class FakeEngine:
    """``role`` is prefill or decode. ``faults`` are used up one a request, in order; None is a healthy answer.

    A fault that returns True leaves the connection open.
    """

    def __init__(self, role: str, fabric: Fabric) -> None:
        self.role, self.fabric = role, fabric
        self.calls: list[Call] = []
        self.faults: list[Fault | None] = []
        self.always: Fault | None = None
        self.held: set[str] = set()
        """Transfer ids whose blocks wait on P."""
        self.fetched: list[str] = []
        self.counts = dict.fromkeys(("external_kv_transfer", "local_compute", "local_cache_hit"), 0)
        """Prompt tokens by source."""
        self.running = self.waiting = 0
        self.sent: int | None = 0
        """Transfers, as P counts them; None for a version that does not."""
        self.counts_sent = True
        self.send_bytes, self.send_seconds = 32 << 20, 0.015
        """Of each transfer."""
        self.weights = "a"
        """KV cache of other weights gives other tokens."""
        self.moves = True
        """Whether KV cache arrives; else D computes the prompt."""
        self.rounds = False
        """As on a GPU: a prompt that was computed in one go gives other tokens than one of the prefix cache."""
        self.caches = True
        self.api_key = False
        self.cache: set[Key] = set()
        self.stuck = 0
        """Pulls that a real D would wait the abort timeout for."""
        self.dead = False
        self.port = self.bootstrap_port = 0
        self.queries = 0
        self.other_ids: list[str] = []
        """Of further data-parallel ranks."""
        self.workers: Json = {"0": {"0": "tcp://127.0.0.1:1"}}
        self.delay: asyncio.Event | None = None
        self.arrived = asyncio.Condition()
        self._servers: list[asyncio.Server] = []
        self._writers: dict[asyncio.StreamWriter, asyncio.Task[None]] = {}
        self.new_engine_id()

    def new_engine_id(self) -> None:
        """As after a restart."""
        self.held.clear()
        if self.role == "prefill":
            self.fabric.holders = {k: v for k, v in self.fabric.holders.items() if v is not self}
            self.engine_id = str(uuid.uuid4())
            self.fabric.holders[self.engine_id] = self

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> "FakeEngine":
        main = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = main.sockets[0].getsockname()[1]
        self._servers = [main]
        if self.role == "prefill":
            side = await asyncio.start_server(self._accept, "127.0.0.1", self.bootstrap_port)
            self.bootstrap_port = side.sockets[0].getsockname()[1]
            self._servers.append(side)
        return self

    async def stop(self) -> None:
        """As a killed process: nobody listens, connections are reset."""
        for server in self._servers:
            server.close()
        tasks = list(self._writers.values())
        for writer in list(self._writers):
            writer.transport.abort()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for server in self._servers:
            await server.wait_closed()

    async def called(self, count: int) -> Call:
        """The ``count``-th inference call, when it has come."""
        async with self.arrived:
            await self.arrived.wait_for(lambda: len(self.calls) >= count)
        return self.calls[count - 1]

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers[writer] = asyncio.create_task(self._serve(reader, writer))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                call = await read_call(reader)
                if not await Exchange(self, call, reader, writer).answer():
                    break
        except (asyncio.IncompleteReadError, ConnectionError, GoneError):
            pass
        finally:
            self._writers.pop(writer, None)
            writer.close()


async def read_call(reader: asyncio.StreamReader) -> Call:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head[:-4].split("\r\n")
    method, path, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    raw = await reader.readexactly(int(headers.get("content-length", 0)))
    return Call(method, path, headers, json.loads(raw) if raw else {})


@dataclass
class Exchange:
    engine: FakeEngine
    call: Call
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    source: str | None = None
    """Weights from which D's KV cache came, if it was fetched."""

    async def answer(self) -> bool:
        """True if the connection can be used again."""
        engine, call = self.engine, self.call
        if call.path == "/query":
            engine.queries += 1
            ids = enumerate((engine.engine_id, *engine.other_ids))
            entries = {str(rank): {"engine_id": engine_id, "worker_addr": engine.workers} for rank, engine_id in ids}
            await self.send_json(200, entries)
            return True
        if call.path == "/metrics":
            await self.send_metrics()
            return True
        if engine.api_key and call.path.startswith("/v1/"):
            await self.send_error(401, "Unauthorized")
            return True
        if call.path in {"/health", "/version", "/v1/models"}:
            await self.send_json(200, {"object": "list", "data": [{"id": "tiny"}], "version": "0.33.0"})
            return True
        async with engine.arrived:
            engine.calls.append(call)
            engine.arrived.notify_all()
        fault = engine.faults.pop(0) if engine.faults else engine.always
        if fault is not None:
            return bool(await fault(self))
        await self.serve()
        return True

    async def serve(self) -> None:
        body = self.call.body
        if self.engine.role == "prefill":
            await self.prefill(body)
        elif body.get("model") != "tiny":
            await self.reject(404, "no such model")
        elif await self.load(body.get("kv_transfer_params")):
            await self.decode(body)

    async def prefill(self, body: Json) -> None:
        params = body.get("kv_transfer_params") or {}
        if params.get("do_remote_prefill"):
            self.engine.dead = True
            raise GoneError
        if body.get("min_tokens", 0) > body.get("max_tokens", 16):
            await self.send_error(400, "min_tokens must be at most max_tokens")
            return
        if params.get("do_remote_decode"):
            self.engine.held.add(params["transfer_id"])
        self.count()
        await self.send_json(200, self.completion("x", "length"))

    async def load(self, params: Json | None) -> bool:
        """D's side of a transfer; False if the request was answered with its failure."""
        if params is None:
            return True
        if params.get("do_remote_decode"):
            self.engine.dead = True
            raise GoneError
        needed = {"do_remote_decode", "do_remote_prefill", "transfer_id", "remote_engine_id", "remote_bootstrap_addr"}
        if set(params) != needed:
            self.engine.stuck += 1
            await self.hang()
        holder = self.engine.fabric.holders.get(params["remote_engine_id"])
        if holder is None or params["remote_bootstrap_addr"] != f"http://127.0.0.1:{holder.bootstrap_port}":
            await self.send_error(500, "engine id not found from bootstrap")
            return False
        if params["transfer_id"] not in holder.held:
            self.engine.stuck += 1
            await self.hang()
        holder.held.remove(params["transfer_id"])
        self.engine.fetched.append(params["transfer_id"])
        if self.engine.moves:
            self.source = holder.weights
            if holder.sent is not None and holder.counts_sent:
                holder.sent += 1
        return True

    async def reject(self, code: int, message: str) -> None:
        """A D that rejects a request has P free the blocks, whatever the reason."""
        params = self.call.body.get("kv_transfer_params") or {}
        holder = self.engine.fabric.holders.get(params.get("remote_engine_id"))
        if self.engine.role == "decode" and holder is not None:
            holder.held.discard(params["transfer_id"])
        await self.send_error(code, message)

    def count(self) -> bool:
        """Where the prompt's tokens came from; whether from the engine's own prefix cache."""
        engine, body = self.engine, self.call.body
        key, tokens = (str(body.get("cache_salt")), str(body.get("prompt"))), len(self.words())
        hit = key in engine.cache
        if self.source is not None:
            engine.counts["external_kv_transfer"] += tokens
        elif hit:
            engine.counts["local_cache_hit"] += tokens - 1
        engine.counts["local_compute"] += 1 if hit or self.source is not None else tokens
        if engine.caches:
            engine.cache.add(key)
        return hit

    def tokens(self, *, hit: bool) -> list[int]:
        body, engine = self.call.body, self.engine
        shift = ord(self.source or engine.weights)
        tokens = [(zlib.crc32(f"{body['prompt']} {n}".encode()) + shift) % 253 for n in range(body["max_tokens"])]
        return [*tokens[:-1], 253] if engine.rounds and not hit and self.source is None else tokens

    async def send_metrics(self) -> None:
        engine = self.engine
        gauges: dict[str, float] = {"num_requests_running": engine.running, "num_requests_waiting": engine.waiting}
        if engine.role == "prefill" and engine.sent is not None:
            gauges["mooncake_xfer_time_seconds_count"] = engine.sent
            gauges["mooncake_xfer_time_seconds_sum"] = engine.sent * engine.send_seconds
            gauges["mooncake_bytes_transferred_sum"] = engine.sent * engine.send_bytes
        lines = [f'vllm:{name}{{engine="0",model_name="tiny"}} {float(value)}' for name, value in gauges.items()]
        counter = 'vllm:prompt_tokens_by_source_total{engine="0",model_name="tiny"'
        lines += [f'{counter},source="{source}"}} {value}.0' for source, value in engine.counts.items()]
        body = ("\n".join(lines) + "\n").encode()
        self.writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: %d\r\n\r\n" % len(body) + body
        )
        await self.writer.drain()

    async def decode(self, body: Json) -> None:
        hit = self.count()
        if body.get("return_token_ids"):
            answer = self.completion("x", "length")
            answer["choices"][0]["token_ids"] = self.tokens(hit=hit)
            await self.send_json(200, answer)
            return
        words = self.words()
        if not body.get("stream"):
            await self.send_json(200, self.completion(" ".join(words), "stop"))
            return
        await self.start_stream()
        for word in words:
            await self.send_event(self.piece(word, None))
            if self.engine.delay is not None:
                await self.engine.delay.wait()
        await self.send_event(self.piece("", "stop"))
        await self.send_chunk(b"data: [DONE]\n\n")
        self.writer.write(b"0\r\n\r\n")

    def words(self) -> list[str]:
        body = self.call.body
        if "messages" in body:
            return str(body["messages"][-1]["content"]).split()
        return str(body["prompt"]).split()

    def completion(self, text: str, reason: str) -> Json:
        choice = {"index": 0, "finish_reason": reason, "text": text, "message": {"role": "assistant", "content": text}}
        usage = {"prompt_tokens": len(self.words()), "completion_tokens": 1}
        return {"id": "c", "object": "x", "created": 1, "model": "tiny", "choices": [choice], "usage": usage}

    def piece(self, text: str, reason: str | None) -> Json:
        choice = {"index": 0, "finish_reason": reason, "text": text, "delta": {"content": text}}
        return {"id": "c", "object": "x", "created": 1, "model": "tiny", "choices": [choice]}

    async def start_stream(self) -> None:
        self.writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
        )

    async def send_event(self, content: Json) -> None:
        await self.send_chunk(b"data: %b\n\n" % json.dumps(content).encode())

    async def send_chunk(self, content: bytes) -> None:
        self.writer.write(b"%x\r\n%b\r\n" % (len(content), content))
        await self.writer.drain()

    async def send_json(self, status: int, content: Json) -> None:
        body = json.dumps(content).encode()
        head = b"HTTP/1.1 %d X\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % (status, len(body))
        self.writer.write(head + body)
        await self.writer.drain()

    async def send_error(self, status: int, message: str) -> None:
        await self.send_json(status, {"error": {"message": message, "type": "x", "code": status}})

    async def hang(self) -> None:
        """Until the proxy gives up."""
        await self.reader.read(1)
        self.call.closed.set()
        raise GoneError


# ---- faults


def status(code: int, message: str = "broken") -> Fault:
    async def fault(exchange: Exchange) -> None:
        await exchange.reject(code, message)

    return fault


async def reset(exchange: Exchange) -> None:
    exchange.writer.transport.abort()
    raise GoneError


async def hang(exchange: Exchange) -> None:
    await exchange.hang()


async def ends_by_stop(exchange: Exchange) -> None:
    """P met a stop token: no KV cache will come."""
    await exchange.send_json(200, exchange.completion("x", "stop"))


async def no_http(exchange: Exchange) -> None:
    exchange.writer.write(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")


async def error_event(exchange: Exchange) -> None:
    """A failed load in a stream, as vLLM reports it."""
    await exchange.start_stream()
    await exchange.send_event({"error": {"message": "KV load failed", "type": "InternalServerError", "code": 500}})
    await exchange.send_chunk(b"data: [DONE]\n\n")
    exchange.writer.write(b"0\r\n\r\n")
    await exchange.writer.drain()


def dies_after(pieces: int, tail: bytes = b"") -> Fault:
    """Mid-stream death; ``tail`` is the beginning of a chunk that never ends."""

    async def fault(exchange: Exchange) -> None:
        await exchange.load(exchange.call.body.get("kv_transfer_params"))
        await exchange.start_stream()
        for word in exchange.words()[:pieces]:
            await exchange.send_event(exchange.piece(word, None))
        exchange.writer.write(tail)
        await exchange.writer.drain()
        await asyncio.sleep(0)
        exchange.writer.close()
        raise GoneError

    return fault


@contextlib.asynccontextmanager
async def engines(prefills: int = 1, decodes: int = 1) -> AsyncIterator[tuple[list[FakeEngine], list[FakeEngine]]]:
    fabric = Fabric()
    p = [await FakeEngine("prefill", fabric).start() for _ in range(prefills)]
    d = [await FakeEngine("decode", fabric).start() for _ in range(decodes)]
    try:
        yield p, d
    finally:
        for engine in (*p, *d):
            await engine.stop()
