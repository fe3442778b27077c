"""The server side against clients that are slow, old, wrong or hostile: a clean answer, and no engine sees it."""

import asyncio
import json

import pytest

from tests.proxy.conftest import Launch, chat_body, connect, events, post, until, words
from tests.proxy.engine import hang

REQUEST = b"POST /v1/chat/completions HTTP/1.1\r\n"
SMUGGLING = {
    "length and chunked": REQUEST + b"host: x\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": REQUEST + b"host: x\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello",
    "length list": REQUEST + b"host: x\r\ncontent-length: 5, 5\r\n\r\nhello",
    "negative length": REQUEST + b"host: x\r\ncontent-length: -5\r\n\r\nhello",
    "signed length": REQUEST + b"host: x\r\ncontent-length: +5\r\n\r\nhello",
    "chunked twice removed": REQUEST + b"host: x\r\ntransfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "unknown coding": REQUEST + b"host: x\r\ntransfer-encoding: gzip\r\n\r\nhello",
    "space before colon": REQUEST + b"host: x\r\ncontent-length : 5\r\n\r\nhello",
    "folded header": REQUEST + b"host: x\r\nx-a: 1\r\n content-length: 5\r\n\r\n",
    "no host": REQUEST + b"content-length: 2\r\n\r\n{}",
    "two hosts": REQUEST + b"host: x\r\nhost: y\r\ncontent-length: 2\r\n\r\n{}",
    "NUL in a header": REQUEST + b"host: x\r\nx-a: \x00\r\n\r\n",
    "bare LF": b"POST /v1/chat/completions HTTP/1.1\nhost: x\ncontent-length: 2\n\n{}",
    "bad chunk size": REQUEST + b"host: x\r\ntransfer-encoding: chunked\r\n\r\n0x2\r\n{}\r\n0\r\n\r\n",
    "no version": b"POST /v1/chat/completions\r\n\r\n",
    "HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "upgrade": REQUEST + b"host: x\r\nconnection: upgrade\r\nupgrade: h2c\r\ncontent-length: 2\r\n\r\n{}",
}


@pytest.mark.parametrize("data", SMUGGLING.values(), ids=SMUGGLING)
async def test_ambiguous_requests_are_refused(launch: Launch, data: bytes) -> None:
    proxy = await launch()
    async with connect(proxy) as client:
        await client.send(data)
        status, headers, body = await client.read_answer()
        assert status == 400
        assert headers["connection"] == "close"
        assert json.loads(body)["error"]["type"] == "invalid_request_error"
        assert await client.read_all() == b"", "the connection is closed"
    assert not proxy.prefills[0].calls
    assert not proxy.decodes[0].calls


HOSTILE = {
    "no JSON": b"hello",
    "no object": b"[1, 2]",
    "empty": b"",
    "deep": b'{"messages": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "deep objects": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    "invalid UTF-8": b'{"model": "tiny", "messages": [{"role": "user", "content": "\xff\xfe"}]}',
    "lone surrogate key": b'{"\\ud800": 1}',
    "NaN": b'{"temperature": NaN}',
    "trailing text": b'{"model": "tiny"} {}',
    "extras are no object": b'{"vllm_xargs": "kv_transfer_params"}',
}


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE)
async def test_hostile_bodies_are_refused(launch: Launch, body: bytes) -> None:
    proxy = await launch()
    async with connect(proxy) as client:
        await client.send(post(body))
        status, _, answer = await client.read_answer()
    assert status == 400
    assert json.loads(answer)["error"]["code"] in {"invalid_json", "invalid_parameter"}
    assert not proxy.prefills[0].calls
    assert not proxy.decodes[0].calls


async def test_transfer_parameters_of_clients_never_reach_an_engine(launch: Launch) -> None:
    proxy = await launch()
    evil = {"do_remote_decode": True, "do_remote_prefill": True, "remote_bootstrap_addr": "http://169.254.169.254"}
    answer = await proxy.chat(
        kv_transfer_params=evil, ec_transfer_params=evil, vllm_xargs={"kv_transfer_params": "x", "mine": 1}
    )
    assert answer.status_code == 200
    for engine in (*proxy.prefills, *proxy.decodes):
        assert not engine.dead
        body = engine.calls[0].body
        assert "ec_transfer_params" not in body
        assert body["vllm_xargs"] == {"mine": 1}
        assert "169.254" not in json.dumps(body)


async def test_escaped_and_duplicate_keys_are_the_same_key(launch: Launch) -> None:
    proxy = await launch()
    body = (
        chat_body()[:-1]
        + b', "kv\\u005ftransfer_params": {"do_remote_decode": true}, "max_tokens": 9, "max_tokens": 8}'
    )
    async with connect(proxy) as client:
        await client.send(post(body))
        assert (await client.read_answer())[0] == 200
    assert proxy.decodes[0].calls[0].body["max_tokens"] == 8
    assert not proxy.decodes[0].dead


# ---- sizes


async def test_long_body_is_refused_before_it_is_read(launch: Launch) -> None:
    proxy = await launch(max_body_bytes=1000)
    async with connect(proxy) as client:
        await client.send(REQUEST + b"host: x\r\ncontent-length: 1001\r\n\r\n")
        status, _, body = await client.read_answer()
    assert status == 413
    assert "1000" in json.loads(body)["error"]["message"]


async def test_long_chunked_body_is_refused_while_it_is_read(launch: Launch) -> None:
    proxy = await launch(max_body_bytes=1000)
    async with connect(proxy) as client:
        await client.send(REQUEST + b"host: x\r\ntransfer-encoding: chunked\r\n\r\n")
        await client.send(b"3e8\r\n" + b"x" * 1000 + b"\r\n1\r\nx\r\n")
        assert (await client.read_answer())[0] == 413


async def test_answer_to_a_refused_upload_arrives(launch: Launch) -> None:
    """The upload goes on for a while; a reset would destroy the answer on its way."""
    proxy = await launch(max_body_bytes=1000)
    async with connect(proxy) as client:
        await client.send(REQUEST + b"host: x\r\ncontent-length: 4000000\r\n\r\n" + b"x" * 4_000_000)
        assert (await client.read_answer())[0] == 413


@pytest.mark.parametrize(
    "head",
    [b"x-a: " + b"a" * 40_000 + b"\r\n", b"".join(b"x-%d: 1\r\n" % n for n in range(5000))],
    ids=["long header", "many headers"],
)
async def test_long_head_is_refused(launch: Launch, head: bytes) -> None:
    proxy = await launch()
    async with connect(proxy) as client:
        await client.send(REQUEST + b"host: x\r\n" + head + b"content-length: 2\r\n\r\n{}")
        assert (await client.read_answer())[0] == 431


async def test_endless_header_is_refused(launch: Launch) -> None:
    proxy = await launch()
    async with connect(proxy) as client:
        await client.send(REQUEST + b"host: x\r\nx-a: " + b"a" * 400_000)
        assert (await client.read_answer())[0] == 431


# ---- slow clients


async def test_slow_head_is_ended(launch: Launch) -> None:
    proxy = await launch(header_timeout=15)
    async with connect(proxy) as client:
        await client.send(b"POST /v1/chat/completions HT")
        await client.send(b"TP/1.1\r\nhost: x\r\n")
        await until(lambda: proxy.app.gateway.edges)
        await asyncio.sleep(0.05)
        proxy.skip(16)
        assert (await client.read_answer())[0] == 408


async def test_silent_connection_is_closed(launch: Launch) -> None:
    proxy = await launch(header_timeout=15)
    async with connect(proxy) as client:
        await until(lambda: proxy.app.gateway.edges)
        proxy.skip(16)
        assert await client.read_all() == b""


async def test_client_that_stops_reading_is_ended(launch: Launch) -> None:
    proxy = await launch(idle_timeout=120)
    flood = "x" * 60_000

    async def pour(exchange: object) -> None:
        await exchange.start_stream()  # type: ignore[attr-defined]
        for _ in range(400):
            await exchange.send_event(exchange.piece(flood, None))  # type: ignore[attr-defined]

    proxy.decodes[0].always = pour
    async with connect(proxy) as client:
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await client.send(post(chat_body(stream=True)))
        await until(lambda: any(not edge.writable for edge in proxy.app.gateway.edges))
        proxy.skip(121)
        await until(lambda: ("pd", "client_slow") in proxy.outcomes)
    assert proxy.app.gateway.in_flight == 0


# ---- protocol


async def test_expect_continue(launch: Launch) -> None:
    proxy = await launch()
    body = chat_body()
    async with connect(proxy) as client:
        await client.send(REQUEST + b"host: x\r\nexpect: 100-continue\r\ncontent-length: %d\r\n\r\n" % len(body))
        assert await client.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        await client.send(body)
        assert (await client.read_answer())[0] == 200


async def test_pipelined_requests_are_answered_in_order(launch: Launch) -> None:
    proxy = await launch()
    async with connect(proxy) as client:
        await client.send(b"".join(post(chat_body(f"word{n}")) for n in range(5)))
        for n in range(5):
            _, _, body = await client.read_answer()
            assert json.loads(body)["choices"][0]["message"]["content"] == f"word{n}"


async def test_a_thousand_pipelined_requests(launch: Launch) -> None:
    proxy = await launch()
    async with connect(proxy) as client:
        await client.send(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n" * 1000)
        for _ in range(1000):
            assert (await client.read_answer())[0] == 200


async def test_chunked_upload(launch: Launch) -> None:
    proxy = await launch()
    body = chat_body("in pieces")
    async with connect(proxy) as client:
        await client.send(REQUEST + b"host: x\r\ntransfer-encoding: chunked\r\n\r\n")
        for start in range(0, len(body), 7):
            piece = body[start : start + 7]
            await client.send(b"%x\r\n%b\r\n" % (len(piece), piece))
        await client.send(b"0\r\n\r\n")
        _, _, answer = await client.read_answer()
    assert json.loads(answer)["choices"][0]["message"]["content"] == "in pieces"


async def test_http_1_0_gets_a_stream_without_chunks(launch: Launch) -> None:
    proxy = await launch()
    body = chat_body("a b", stream=True)
    async with connect(proxy) as client:
        await client.send(b"POST /v1/chat/completions HTTP/1.0\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
        head, _, stream = (await client.read_all()).partition(b"\r\n\r\n")
    assert b"transfer-encoding" not in head
    assert b"connection: close" in head
    assert words(stream.decode()) == ["a", "b"]
    assert events(stream.decode())[-1] == "[DONE]"


async def test_one_byte_at_a_time(launch: Launch) -> None:
    proxy = await launch()
    async with connect(proxy) as client:
        for byte in post(chat_body("slow but right")):
            await client.send(bytes([byte]))
        _, _, answer = await client.read_answer()
    assert json.loads(answer)["choices"][0]["message"]["content"] == "slow but right"


async def test_half_closed_client_has_left(launch: Launch) -> None:
    proxy = await launch()
    proxy.prefills[0].always = hang
    async with connect(proxy) as client:
        await client.send(post(chat_body()))
        call = await proxy.prefills[0].called(1)
        client.writer.write_eof()
        await asyncio.wait_for(call.closed.wait(), 5)
    await until(lambda: proxy.outcomes == {("pd", "client_left"): 1})


# ---- routes


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/chat/completions", 405),
        ("POST", "/v1/models", 405),
        ("DELETE", "/health", 405),
        ("GET", "/", 404),
        ("POST", "/v1/load_lora_adapter", 404),
        ("POST", "/sleep", 404),
        ("POST", "/collective_rpc", 404),
        ("GET", "/server_info", 404),
        ("GET", "/debug/pool", 404),
        ("GET", "/v1/../sleep", 404),
        ("GET", "http://engine:8000/health", 404),
    ],
)
async def test_closed_routes(launch: Launch, method: str, path: str, status: int) -> None:
    proxy = await launch()
    async with connect(proxy) as client:
        await client.send(f"{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n".encode())
        assert (await client.read_answer())[0] == status
    assert not proxy.decodes[0].calls


async def test_request_id_in_and_out(launch: Launch) -> None:
    proxy = await launch()
    body = {"model": "tiny", "messages": [{"role": "user", "content": "a"}]}
    answer = await proxy.client.post("/v1/chat/completions", json=body, headers={"x-request-id": "mine-1"})
    assert answer.headers["x-request-id"] == "mine-1"
    assert proxy.prefills[0].calls[0].headers["x-request-id"] == "mine-1"
    assert proxy.decodes[0].calls[0].headers["x-request-id"] == "mine-1"


@pytest.mark.parametrize("given", ["a" * 129, "a b", "é", "a;b", ""])
async def test_hostile_request_ids_are_replaced(launch: Launch, given: str) -> None:
    proxy = await launch()
    async with connect(proxy) as client:
        await client.send(post(chat_body(), extra=f"x-request-id: {given}\r\n"))
        _, headers, _ = await client.read_answer()
    assert len(headers["x-request-id"]) == 32


async def test_only_known_headers_reach_engines(launch: Launch) -> None:
    proxy = await launch()
    extra = (
        "authorization: Bearer k\r\ntraceparent: 00-1\r\nx-data-parallel-rank: 3\r\ncookie: c\r\nx-forwarded-for: 1\r\n"
    )
    async with connect(proxy) as client:
        await client.send(post(chat_body(), extra=extra))
        await client.read_answer()
    for engine in (*proxy.prefills, *proxy.decodes):
        headers = engine.calls[0].headers
        assert headers["authorization"] == "Bearer k"
        assert headers["traceparent"] == "00-1"
        assert not headers.keys() & {"x-data-parallel-rank", "cookie", "x-forwarded-for"}
