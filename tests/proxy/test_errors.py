"""Errors that the proxy answers itself, in the form that the client's library makes its exception from."""

import json
from typing import Any

import pytest

from pdserving.proxy.errors import Failure
from tests.proxy import engine as faults
from tests.proxy.conftest import Launch, connect, events, post

MESSAGES = "/v1/messages"


def is_anthropic(answer: Any, kind: str) -> bool:
    message = answer["error"].pop("message")
    return len(message) > 10 and answer == {"type": "error", "error": {"type": kind}}


@pytest.mark.parametrize(
    ("method", "path", "status", "kind"),
    [
        ("POST", MESSAGES, 400, "invalid_request_error"),
        ("POST", f"{MESSAGES}?beta=true", 400, "invalid_request_error"),
        ("GET", MESSAGES, 405, "invalid_request_error"),
        ("GET", f"{MESSAGES}/count_tokens", 405, "invalid_request_error"),
        ("POST", f"{MESSAGES}/batches", 404, "not_found_error"),
    ],
)
async def test_requests_that_never_become_one(launch: Launch, method: str, path: str, status: int, kind: str) -> None:
    proxy = await launch()
    answer = await proxy.client.request(method, path, content=b"no JSON")
    assert answer.status_code == status
    assert is_anthropic(answer.json(), kind)


@pytest.mark.parametrize(
    ("data", "status", "kind"),
    [
        (f"POST {MESSAGES} HTTP/1.1\r\nhost: x\r\ncontent-length: 9999\r\n\r\n", 413, "request_too_large"),
        (f"POST {MESSAGES} HTTP/1.1\r\nhost: x\r\nx: {'a' * 40_000}\r\n\r\n", 431, "invalid_request_error"),
        (f"POST {MESSAGES} HTTP/1.1\r\ncontent-length: 2\r\n\r\n{{}}", 400, "invalid_request_error"),
    ],
    ids=["long body", "long head", "no host"],
)
async def test_requests_that_are_refused_while_they_are_read(launch: Launch, data: str, status: int, kind: str) -> None:
    proxy = await launch(max_body_bytes=1000)
    async with connect(proxy) as client:
        await client.send(data.encode())
        code, _, body = await client.read_answer()
    assert code == status
    assert is_anthropic(json.loads(body), kind)


async def test_a_request_that_comes_too_slowly(launch: Launch) -> None:
    proxy = await launch()
    async with connect(proxy) as client:
        await client.send(post(b"{" * 100, MESSAGES)[:-50])
        async with connect(proxy) as other:  # answered only after what came before was read
            await other.send(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n")
            assert (await other.read_answer())[0] == 200
        proxy.skip(16)
        status, _, body = await client.read_answer()
    assert status == 408
    assert is_anthropic(json.loads(body), "invalid_request_error")


async def test_too_many_requests(launch: Launch) -> None:
    proxy = await launch(max_in_flight=0)
    answer = await proxy.chat(path=MESSAGES)
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
    assert is_anthropic(answer.json(), "rate_limit_error")


@pytest.mark.parametrize("path", [MESSAGES, f"{MESSAGES}/count_tokens"])
async def test_no_engine(launch: Launch, path: str) -> None:
    proxy = await launch(decodes=0)
    answer = await proxy.chat(path=path)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert is_anthropic(answer.json(), "overloaded_error")


async def test_engines_that_fail(launch: Launch) -> None:
    proxy = await launch(max_retries=0)
    proxy.decodes[0].always = faults.status(500)
    answer = await proxy.chat(path=MESSAGES)
    assert answer.status_code == 502
    assert is_anthropic(answer.json(), "api_error")


async def test_a_break_mid_stream(launch: Launch) -> None:
    proxy = await launch()
    proxy.decodes[0].always = faults.dies_after(1)
    answer = await proxy.chat("a b", path=MESSAGES, max_tokens=9, stream=True)
    assert is_anthropic(events(answer.text)[-1], "api_error")


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messagesx", "/v1/models"])
async def test_every_other_path_has_the_form_of_openai(launch: Launch, path: str) -> None:
    proxy = await launch()
    answer = await proxy.client.post(path, content=b"no JSON")
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}


@pytest.mark.parametrize(
    ("status", "kind"),
    [(401, "authentication_error"), (403, "permission_error"), (504, "timeout_error"), (500, "api_error")],
)
def test_types_of_other_statuses(status: int, kind: str) -> None:
    failure = Failure(status, "x", "what failed and what to do")
    assert is_anthropic(json.loads(failure.encode_for(b"/v1/messages")), kind)
