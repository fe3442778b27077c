"""The client port by TLS: what works in the clear works here, and certificates change under open connections."""

import asyncio
import json
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from pdserving.proxy.http.upload import LARGE, SEGMENT
from pdserving.proxy.tls import build_context
from tests.proxy.conftest import PATIENCE, Launch, Proxy, Secret, chat_body, connect, post, until, words
from tests.proxy.test_upload import letters

NAME = "127.0.0.1"


def make_certificate(folder: Path, *, password: str = "") -> dict[str, str]:
    """A pair as a Secret of type kubernetes.io/tls has it, signed by itself."""
    key, certificate = folder / "key.pem", folder / "crt.pem"
    names = ["-subj", "/CN=test", "-addext", f"subjectAltName=IP:{NAME}"]
    locked = ["-passout", f"pass:{password}"] if password else ["-nodes"]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", *locked,
         "-days", "2", *names, "-keyout", key, "-out", certificate],
        check=True,
        capture_output=True,
    )  # fmt: skip
    return {"tls.crt": certificate.read_text(), "tls.key": key.read_text()}


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, str]]:
    return [make_certificate(tmp_path_factory.mktemp("pair")) for _ in range(2)]


@pytest.fixture
def secret(tmp_path: Path, pairs: list[dict[str, str]]) -> Secret:
    return Secret(tmp_path, **pairs[0])


def trusting(pair: dict[str, str]) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=pair["tls.crt"])


@pytest.fixture
def tls(pairs: list[dict[str, str]]) -> ssl.SSLContext:
    return trusting(pairs[0])


async def start(launch: Launch, secret: Secret, **config: object) -> Proxy:
    return await launch(tls_cert_file=secret.path("tls.crt"), tls_key_file=secret.path("tls.key"), **config)


@pytest.fixture
async def proxy(launch: Launch, secret: Secret) -> Proxy:
    return await start(launch, secret)


@pytest.fixture
async def client(proxy: Proxy, tls: ssl.SSLContext) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=f"https://{NAME}:{proxy.port}", verify=tls, timeout=PATIENCE) as client:
        yield client


# ---- what works in the clear


async def test_an_answer(proxy: Proxy, client: httpx.AsyncClient) -> None:
    answer = await client.post("/v1/chat/completions", content=chat_body("one two"))
    assert answer.json()["choices"][0]["message"]["content"] == "one two"
    assert (await proxy.admin("/debug/pool"))["ready"], "the admin port stays in the clear"


async def test_a_stream_comes_piece_by_piece(proxy: Proxy, client: httpx.AsyncClient) -> None:
    proxy.decodes[0].delay = asyncio.Event()
    async with client.stream("POST", "/v1/chat/completions", content=chat_body("a b", stream=True)) as answer:
        pieces = answer.aiter_text()
        assert words(await anext(pieces)) == ["a"]
        proxy.decodes[0].delay.set()
        assert words("".join([piece async for piece in pieces])) == ["b"]


@pytest.mark.parametrize("size", [LARGE, SEGMENT, 3 * SEGMENT + 1])
@pytest.mark.parametrize("piece", [7_777, 10_000_000])
async def test_a_large_body_and_requests_behind_it(proxy: Proxy, tls: ssl.SSLContext, size: int, piece: int) -> None:
    text = letters(size)
    data = post(chat_body(text)) + post(chat_body("small"))
    async with connect(proxy, tls) as client:
        for at in range(0, len(data), piece):
            await client.send(data[at : at + piece])
        for _ in range(2):
            assert (await client.read_answer())[0] == 200
    for engine in (proxy.prefills[0], proxy.decodes[0]):
        assert [call.body["messages"][0]["content"] for call in engine.calls] == [text, "small"]


async def test_answer_to_a_refused_upload_arrives(launch: Launch, secret: Secret, tls: ssl.SSLContext) -> None:
    proxy = await start(launch, secret, max_body_bytes=1000)
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 4000000\r\n\r\n"
    async with connect(proxy, tls) as client:
        await client.send(head + b"x" * 4_000_000)
        status, _, body = await client.read_answer()
        assert (status, json.loads(body)["error"]["code"]) == (413, "body_too_large")
        proxy.skip(3)
        assert await client.read_all() == b"", "the connection is closed"


async def test_a_client_that_leaves_mid_stream(proxy: Proxy, tls: ssl.SSLContext) -> None:
    proxy.decodes[0].delay = asyncio.Event()
    async with connect(proxy, tls) as client:
        await client.send(post(chat_body("a b", stream=True)))
        assert b"200" in await client.reader.readline()
        client.writer.transport.abort()
        await until(lambda: proxy.outcomes == {("pd", "client_left"): 1})
    proxy.decodes[0].delay.set()


async def test_a_client_that_stops_reading_is_ended(proxy: Proxy, tls: ssl.SSLContext) -> None:
    flood = "x" * 60_000

    async def pour(exchange: object) -> None:
        await exchange.start_stream()  # type: ignore[attr-defined]
        for _ in range(400):
            await exchange.send_event(exchange.piece(flood, None))  # type: ignore[attr-defined]

    proxy.decodes[0].always = pour
    async with connect(proxy, tls) as client:
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await client.send(post(chat_body(stream=True)))
        await until(lambda: any(not edge.writable for edge in proxy.app.gateway.edges))
        proxy.skip(121)
        await until(lambda: ("pd", "client_slow") in proxy.outcomes)
    assert proxy.app.gateway.in_flight == 0


# ---- the handshake


async def test_a_handshake_that_does_not_come_is_ended(launch: Launch, secret: Secret) -> None:
    proxy = await start(launch, secret, handshake_timeout=0.2)
    async with connect(proxy) as client:
        assert await client.read_all() == b""


async def test_plain_http_is_not_answered_and_does_no_harm(proxy: Proxy, client: httpx.AsyncClient) -> None:
    async with connect(proxy) as plain:
        await plain.send(post(chat_body()))
        assert b"HTTP/" not in await plain.read_all()
    assert not proxy.prefills[0].calls
    assert (await client.get("/health")).status_code == 200


def handshake(port: int, context: ssl.SSLContext) -> tuple[str | None, str | None]:
    """Version and application protocol."""
    with (
        socket.create_connection((NAME, port), PATIENCE) as plain,
        context.wrap_socket(plain, server_hostname=NAME) as s,
    ):
        return s.version(), s.selected_alpn_protocol()


async def test_what_is_agreed_on(proxy: Proxy, pairs: list[dict[str, str]]) -> None:
    new, old = trusting(pairs[0]), trusting(pairs[0])
    new.set_alpn_protocols(["h2", "http/1.1"])
    assert await asyncio.to_thread(handshake, proxy.port, new) == ("TLSv1.3", "http/1.1")
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    assert await asyncio.to_thread(handshake, proxy.port, old) == ("TLSv1.2", None)
    assert build_context().minimum_version == ssl.TLSVersion.TLSv1_2


# ---- the Secret


async def is_served(proxy: Proxy, pair: dict[str, str]) -> bool:
    """Whether new connections get this certificate."""
    try:
        async with connect(proxy, trusting(pair)):
            return True
    except (ssl.SSLError, ConnectionResetError):
        return False


async def test_a_new_certificate_is_for_new_connections(
    proxy: Proxy, client: httpx.AsyncClient, secret: Secret, pairs: list[dict[str, str]]
) -> None:
    assert (await client.get("/health")).status_code == 200
    secret.put(**pairs[1])
    proxy.skip(3)
    assert [await is_served(proxy, pair) for pair in pairs] == [False, True]
    assert (await client.get("/health")).status_code == 200, "the open connection goes on"


async def test_a_pair_that_does_not_fit_changes_nothing_and_is_told(
    proxy: Proxy, secret: Secret, pairs: list[dict[str, str]]
) -> None:
    secret.put(**{"tls.crt": pairs[1]["tls.crt"], "tls.key": pairs[0]["tls.key"]})
    proxy.skip(3)
    assert [await is_served(proxy, pair) for pair in pairs] == [True, False]
    ready = await proxy.admin("/ready")
    assert ready["ready"]
    assert "values mismatch" in ready["problems"][0]
    secret.put(**pairs[1])
    proxy.skip(3)
    assert [await is_served(proxy, pair) for pair in pairs] == [False, True]
    assert not (await proxy.admin("/ready"))["problems"]


@pytest.mark.parametrize(
    ("password", "why"), [("", "No such file"), ("secret", "the key is encrypted")], ids=["missing", "encrypted"]
)
async def test_without_a_usable_certificate_a_proxy_is_not_ready(
    launch: Launch, tmp_path: Path, pairs: list[dict[str, str]], password: str, why: str
) -> None:
    folder = tmp_path / "mounted"
    folder.mkdir()
    secret = Secret(folder, **(make_certificate(tmp_path, password=password) if password else {}))
    proxy = await start(launch, secret)
    ready = await proxy.admin("/ready")
    assert not ready["ready"]
    assert why in ready["problems"][0]
    assert "nobody can connect" in ready["problems"][0]
    assert not await is_served(proxy, pairs[0])
    secret.put(**pairs[0])
    proxy.skip(3)
    assert await is_served(proxy, pairs[0])
    assert (await proxy.admin("/ready"))["ready"]
