"""Large bodies, which are read past the parser: whole and in order, with what follows them, slow, cut or refused."""

import asyncio
import json

import pytest

from pdserving.proxy.http.upload import LARGE, SEGMENT
from tests.proxy.conftest import Launch, chat_body, connect, post, until

SIZES = [LARGE, 300_000, SEGMENT, SEGMENT + LARGE, 3 * SEGMENT + 1]


def letters(size: int) -> str:
    """No two parts of it are alike."""
    return "".join(f"{n:x} " for n in range(size // 4))[:size]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("piece", [7_777, 200_000, 10_000_000])
async def test_a_large_body_arrives_whole_and_requests_follow_it(launch: Launch, size: int, piece: int) -> None:
    proxy = await launch()
    text = letters(size)
    data = post(chat_body(text)) + post(chat_body("small"))
    async with connect(proxy) as client:
        for at in range(0, len(data), piece):
            await client.send(data[at : at + piece])
        for _ in range(2):
            assert (await client.read_answer())[0] == 200
    for engine in (proxy.prefills[0], proxy.decodes[0]):
        prompts = [call.body["messages"][0]["content"] for call in engine.calls]
        assert prompts == [text, "small"]


async def test_a_large_body_behind_another_request(launch: Launch) -> None:
    proxy = await launch()
    texts = ["small", letters(2 * SEGMENT), "last"]
    async with connect(proxy) as client:
        await client.send(b"".join(post(chat_body(text)) for text in texts))
        for _ in texts:
            assert (await client.read_answer())[0] == 200
    assert [call.body["messages"][0]["content"] for call in proxy.decodes[0].calls] == texts


async def test_a_large_body_that_is_no_json(launch: Launch) -> None:
    proxy = await launch()
    async with connect(proxy) as client:
        await client.send(post(b"x" * SEGMENT) + post(chat_body()))
        status, _, body = await client.read_answer()
        assert (status, json.loads(body)["error"]["code"]) == (400, "invalid_json")
        assert (await client.read_answer())[0] == 200


async def test_a_large_body_that_stops_meets_the_deadline(launch: Launch) -> None:
    proxy = await launch(header_timeout=0.5)
    async with connect(proxy) as client:
        await client.send(post(chat_body(letters(SEGMENT)))[:600_000])
        status, _, body = await client.read_answer()
        assert (status, json.loads(body)["error"]["code"]) == (408, "request_timeout")
        await client.send(b"x" * SEGMENT)
        assert await client.read_all() == b"", "the connection is closed"
    assert not proxy.prefills[0].calls


async def test_a_client_that_leaves_in_a_large_body(launch: Launch) -> None:
    proxy = await launch()
    async with connect(proxy) as client:
        await client.send(post(chat_body(letters(SEGMENT)))[:600_000])
        await until(lambda: bool(proxy.app.gateway.edges))
    await until(lambda: not proxy.app.gateway.edges)
    assert not proxy.prefills[0].calls


async def test_large_bodies_side_by_side(launch: Launch) -> None:
    proxy = await launch()
    texts = [f"{n}{letters(SEGMENT)}" for n in range(6)]
    answers = await asyncio.gather(*(proxy.chat(messages=[{"role": "user", "content": text}]) for text in texts))
    assert {answer.status_code for answer in answers} == {200}
    assert sorted(call.body["messages"][0]["content"] for call in proxy.decodes[0].calls) == sorted(texts)
