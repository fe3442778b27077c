"""Only clients with a key are served, the engines never see it, and a changed Secret needs no restart."""

import json
from pathlib import Path

import pytest

from pdserving.proxy.keys import read_key
from tests.proxy.conftest import Launch, Secret, chat_body, connect, post

KEYS = "sk-one\n\n  sk-two  \r\n"


@pytest.fixture
def secret(tmp_path: Path) -> Secret:
    return Secret(tmp_path, keys=KEYS)


@pytest.mark.parametrize(
    "header",
    ["authorization: Bearer sk-one", "Authorization: bearer  sk-two ", "x-api-key: sk-two", "X-API-KEY:sk-one"],
)
async def test_a_key_opens(launch: Launch, secret: Secret, header: str) -> None:
    proxy = await launch(api_key_file=secret.path("keys"))
    async with connect(proxy) as client:
        await client.send(post(chat_body(), extra=f"{header}\r\n"))
        assert (await client.read_answer())[0] == 200


@pytest.mark.parametrize(
    ("header", "code"),
    [
        ("x-other: 1", "missing_api_key"),
        ("authorization: Bearer", "missing_api_key"),
        ("authorization: Basic sk-one", "missing_api_key"),
        ("authorization: sk-one", "missing_api_key"),
        ("x-api-key:", "missing_api_key"),
        ("authorization: Bearer sk-on", "invalid_api_key"),
        ("authorization: Bearer sk-one,sk-two", "invalid_api_key"),
        ("x-api-key: Bearer sk-one", "invalid_api_key"),
        ("x-api-key: sk-one  sk-two", "invalid_api_key"),
    ],
)
async def test_no_key_and_a_wrong_one_are_told_apart(launch: Launch, secret: Secret, header: str, code: str) -> None:
    proxy = await launch(api_key_file=secret.path("keys"))
    async with connect(proxy) as client:
        await client.send(post(chat_body(), extra=f"{header}\r\n"))
        status, headers, body = await client.read_answer()
        assert (status, headers["www-authenticate"], headers["connection"]) == (401, "Bearer", "close")
    error = json.loads(body)["error"]
    assert (error["code"], error["type"]) == (code, "authentication_error")
    assert not proxy.prefills[0].calls
    assert proxy.outcomes == {("none", code): 1}


async def test_clients_of_messages_get_their_own_form(launch: Launch, secret: Secret) -> None:
    proxy = await launch(api_key_file=secret.path("keys"))
    answer = (await proxy.chat(path="/v1/messages")).json()
    assert (answer["type"], answer["error"]["type"]) == ("error", "authentication_error")


async def test_a_body_without_a_key_is_not_read(launch: Launch, secret: Secret) -> None:
    proxy = await launch(api_key_file=secret.path("keys"))
    async with connect(proxy) as client:
        await client.send(post(b"")[:-2].replace(b"length: 0", b"length: 9999") + b"expect: 100-continue\r\n\r\n")
        assert (await client.read_answer())[0] == 401


async def test_engines_do_not_see_the_key(launch: Launch, secret: Secret) -> None:
    proxy = await launch(api_key_file=secret.path("keys"))
    headers = {"authorization": "Bearer sk-one", "x-api-key": "sk-two", "traceparent": "00-1"}
    assert (await proxy.client.post("/v1/chat/completions", content=chat_body(), headers=headers)).status_code == 200
    assert (
        await proxy.client.post("/tokenize", json={"model": "tiny", "prompt": "a"}, headers=headers)
    ).status_code == 200
    for engine in (*proxy.prefills, *proxy.decodes):
        for call in engine.calls:
            assert not call.headers.keys() & {"authorization", "x-api-key"}
            assert call.headers["traceparent"] == "00-1"
    assert {call.path for call in proxy.decodes[0].calls} == {"/v1/chat/completions", "/tokenize"}


@pytest.mark.parametrize(
    ("path", "status"),
    [("/health", 200), ("/ready", 200), ("/ready?x=1", 200), ("/metrics", 401), ("/v1/models", 401), ("/no", 401)],
)
async def test_what_is_open(launch: Launch, secret: Secret, path: str, status: int) -> None:
    proxy = await launch(api_key_file=secret.path("keys"))
    assert (await proxy.client.get(path)).status_code == status
    assert (await proxy.client.get(f"http://127.0.0.1:{proxy.admin_port}/metrics")).status_code == 200


async def test_a_changed_secret_counts_from_the_next_look_on(launch: Launch, secret: Secret) -> None:
    proxy = await launch(api_key_file=secret.path("keys"))

    async def try_key(key: str) -> int:
        return (await proxy.client.get("/v1/models", headers={"x-api-key": key})).status_code

    secret.put(keys="sk-two\nsk-new")
    proxy.skip(3)
    assert [await try_key(key) for key in ("sk-one", "sk-two", "sk-new")] == [401, 200, 200]
    secret.put(keys="sk-newer")
    proxy.skip(3)
    assert [await try_key(key) for key in ("sk-new", "sk-newer")] == [401, 200]


@pytest.mark.parametrize(("text", "why"), [(None, "No such file"), ("", "holds none"), ("\n \n", "holds none")])
async def test_without_keys_everybody_is_refused_and_ready_says_why(
    launch: Launch, secret: Secret, text: str | None, why: str
) -> None:
    if text is None:
        secret.path("keys").unlink()
    else:
        secret.put(keys=text)
    proxy = await launch(api_key_file=secret.path("keys"))
    for key in ("", "sk-one"):
        answer = await proxy.client.get("/v1/models", headers={"x-api-key": key})
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, "no_api_keys")
    ready = await proxy.client.get("/ready")
    assert ready.status_code == 503
    (problem,) = ready.json()["problems"]
    assert why in problem
    assert "everybody is refused" in problem
    pool = await proxy.admin("/debug/pool")
    assert (pool["ready"], pool["obstacles"]) == (False, [problem])
    if text is not None:
        secret.put(keys="sk-one")
        proxy.skip(3)
        assert (await proxy.client.get("/v1/models", headers={"x-api-key": "sk-one"})).status_code == 200
        assert (await proxy.client.get("/ready")).status_code == 200


async def test_keys_that_vanish_refuse_everybody(launch: Launch, secret: Secret) -> None:
    proxy = await launch(api_key_file=secret.path("keys"))
    secret.put(keys="")
    proxy.skip(3)
    assert (await proxy.client.get("/v1/models", headers={"x-api-key": "sk-one"})).status_code == 401


@pytest.mark.parametrize(
    ("name", "value", "key"),
    [(b"authorization", b"BEARER  k ", b"k"), (b"authorization", b"Token k", b""), (b"x-api-key", b" k", b"k")],
)
def test_where_a_key_stands(name: bytes, value: bytes, key: bytes) -> None:
    assert read_key((name, value)) == key
