"""Every way in which a request can end: the table of docs/proxy-outcomes.md, one section a row."""

import asyncio
import json

import pytest

from tests.proxy import engine as faults
from tests.proxy.conftest import PATIENCE, Launch, chat_body, connect, events, post, until, words
from tests.proxy.engine import Fault

BROKEN_PREFILLS = {
    "resets": faults.reset,
    "500": faults.status(500),
    "503": faults.status(503),
    "429": faults.status(429),
    "no HTTP": faults.no_http,
}


# ---- the way it should be


async def test_prefill_then_decode(launch: Launch) -> None:
    proxy = await launch()
    answer = await proxy.chat("one two three")
    assert answer.json()["choices"][0]["message"]["content"] == "one two three"
    prefill, decode = proxy.prefills[0], proxy.decodes[0]
    sent = decode.calls[0].body["kv_transfer_params"]
    assert sent["remote_engine_id"] == prefill.engine_id
    assert sent["transfer_id"] == prefill.calls[0].body["kv_transfer_params"]["transfer_id"]
    assert decode.fetched == [sent["transfer_id"]]
    assert not prefill.held
    assert proxy.outcomes == {("pd", "ok"): 1}


async def test_stream_is_relayed_piece_by_piece(launch: Launch) -> None:
    proxy = await launch()
    proxy.decodes[0].delay = asyncio.Event()
    async with proxy.client.stream("POST", "/v1/chat/completions", content=chat_body("a b", stream=True)) as answer:
        pieces = answer.aiter_text()
        assert words(await anext(pieces)) == ["a"]
        proxy.decodes[0].delay.set()
        rest = "".join([piece async for piece in pieces])
    assert words(rest) == ["b"]
    assert events(rest)[-1] == "[DONE]"
    assert answer.headers["x-pdserving-path"] == "pd"
    assert answer.headers["x-pdserving-prefill"] == f"127.0.0.1:{proxy.prefills[0].port}"
    assert answer.headers["x-pdserving-decode"] == f"127.0.0.1:{proxy.decodes[0].port}"


# ---- P refuses


@pytest.mark.parametrize("code", [400, 401, 404, 422])
async def test_refusal_of_prefill_reaches_the_client(launch: Launch, code: int) -> None:
    proxy = await launch()
    proxy.prefills[0].faults = [faults.status(code, "prompt is too long")]
    answer = await proxy.chat()
    assert answer.status_code == code
    assert answer.json()["error"]["message"] == "prompt is too long"
    assert not proxy.decodes[0].calls
    assert proxy.outcomes == {("pd", f"prefill_{code}"): 1}


# ---- P down, resets, 5xx, too slow


@pytest.mark.parametrize("fault", BROKEN_PREFILLS.values(), ids=BROKEN_PREFILLS)
async def test_broken_prefill_is_replaced_by_another(launch: Launch, fault: Fault) -> None:
    proxy = await launch(prefills=2)
    for each in proxy.prefills:
        each.faults = [fault]
    proxy.prefills[1].faults = []
    for _ in range(4):  # whichever is chosen first
        answer = await proxy.chat()
        assert answer.status_code == 200
        assert (
            answer.headers["x-pdserving-prefill"].endswith(str(proxy.prefills[1].port)) or not proxy.prefills[0].faults
        )
    assert not proxy.decodes[0].stuck


async def test_dead_prefill_is_replaced_by_another(launch: Launch) -> None:
    proxy = await launch(prefills=2)
    await proxy.prefills[0].stop()
    for _ in range(8):
        answer = await proxy.chat()
        assert answer.headers["x-pdserving-prefill"].endswith(str(proxy.prefills[1].port))


async def test_slow_prefill_is_replaced_by_another(launch: Launch) -> None:
    proxy = await launch(prefills=2, prefill_timeout=300)
    for each in proxy.prefills:
        each.faults = [faults.hang]
    request = asyncio.create_task(proxy.chat())
    await until(lambda: sum(len(each.calls) for each in proxy.prefills) == 1)
    slow = next(each for each in proxy.prefills if each.calls)
    other = next(each for each in proxy.prefills if not each.calls)
    other.faults = []
    proxy.skip(301)
    answer = await request
    assert answer.headers["x-pdserving-path"] == "retry"
    assert len(other.calls) == 1
    await asyncio.wait_for(slow.calls[0].closed.wait(), 5)


@pytest.mark.parametrize("fault", BROKEN_PREFILLS.values(), ids=BROKEN_PREFILLS)
async def test_decode_computes_the_prompt_when_no_prefill_can(launch: Launch, fault: Fault) -> None:
    proxy = await launch()
    proxy.prefills[0].always = fault
    answer = await proxy.chat("still right")
    assert answer.json()["choices"][0]["message"]["content"] == "still right"
    assert answer.headers["x-pdserving-path"] == "local"
    assert "kv_transfer_params" not in proxy.decodes[0].calls[0].body
    assert proxy.app.gateway.local_prefills == 0


async def test_one_failed_request_takes_no_prefill_from_the_others(launch: Launch) -> None:
    proxy = await launch(max_local_prefills=0)
    proxy.prefills[0].faults = [faults.reset]
    assert (await proxy.chat()).status_code == 503
    answers = await asyncio.gather(*(proxy.chat() for _ in range(8)))
    assert {answer.headers["x-pdserving-path"] for answer in answers} == {"pd"}


async def test_local_prefills_are_bounded(launch: Launch) -> None:
    proxy = await launch(max_local_prefills=1)
    proxy.prefills[0].always = faults.status(500)
    proxy.decodes[0].always = faults.hang
    first = asyncio.create_task(proxy.chat())
    await until(lambda: proxy.decodes[0].calls)
    second = await proxy.chat()
    assert second.status_code == 503
    assert second.headers["retry-after"] == "1"
    assert second.json()["error"]["code"] == "prefill_unavailable"
    first.cancel()


async def test_policy_fail(launch: Launch) -> None:
    proxy = await launch(on_prefill_failure="Fail")
    proxy.prefills[0].always = faults.status(500)
    answer = await proxy.chat()
    assert answer.status_code == 503
    assert "onPrefillFailure is Fail" in answer.json()["error"]["message"]
    assert not proxy.decodes[0].calls


# ---- P ends for another reason than length


async def test_prefill_that_stopped_leaves_the_prompt_to_decode(launch: Launch) -> None:
    proxy = await launch()
    proxy.prefills[0].faults = [faults.ends_by_stop]
    answer = await proxy.chat("right words")
    assert answer.json()["choices"][0]["message"]["content"] == "right words"
    assert "kv_transfer_params" not in proxy.decodes[0].calls[0].body
    assert answer.headers["x-pdserving-path"] == "local"


# ---- P finished, D refuses or dies before the first byte


async def test_unreachable_decode_is_replaced_with_the_same_transfer(launch: Launch) -> None:
    proxy = await launch(decodes=2)
    await proxy.decodes[0].stop()
    for _ in range(8):
        assert (await proxy.chat()).status_code == 200
    assert len(proxy.decodes[1].fetched) == 8
    assert len(proxy.prefills[0].calls) == 8, "no prompt was computed twice"
    assert not proxy.prefills[0].held


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("fault", [faults.reset, faults.status(500), faults.status(503), faults.no_http])
async def test_failed_decode_starts_over_under_a_new_id(launch: Launch, fault: Fault, stream: bool) -> None:
    proxy = await launch()
    proxy.decodes[0].faults = [fault]
    answer = await proxy.chat(stream=stream)
    assert answer.status_code == 200
    assert answer.headers["x-pdserving-path"] == "retry"
    first, second = (call.body["kv_transfer_params"]["transfer_id"] for call in proxy.prefills[0].calls)
    assert first != second
    assert proxy.decodes[0].fetched == [second]
    assert proxy.decodes[0].stuck == 0


async def test_decode_that_keeps_failing_is_reported(launch: Launch) -> None:
    proxy = await launch(max_retries=2)
    proxy.decodes[0].always = faults.status(500)
    answer = await proxy.chat()
    assert answer.status_code == 502
    assert answer.json()["error"]["code"] == "decode_failed"
    assert len(proxy.decodes[0].calls) == 3
    assert proxy.outcomes == {("retry", "decode_failed"): 1}


async def test_decode_without_first_byte_meets_its_deadline(launch: Launch) -> None:
    proxy = await launch(max_retries=0, first_byte_timeout=60)
    proxy.decodes[0].always = faults.hang
    request = asyncio.create_task(proxy.chat(stream=True))
    call = await proxy.decodes[0].called(1)
    proxy.skip(61)
    assert (await request).status_code == 504
    await asyncio.wait_for(call.closed.wait(), 5)


async def test_unstreamed_answer_may_take_longer_than_the_first_byte_timeout(launch: Launch) -> None:
    proxy = await launch(max_retries=0, first_byte_timeout=60, request_timeout=3600)
    proxy.decodes[0].always = faults.hang
    request = asyncio.create_task(proxy.chat())
    await proxy.decodes[0].called(1)
    proxy.skip(3000)
    await asyncio.sleep(0)
    assert not request.done()
    proxy.skip(700)
    assert (await request).status_code == 504


async def test_refusal_of_decode_reaches_the_client(launch: Launch) -> None:
    proxy = await launch()
    proxy.decodes[0].faults = [faults.status(400, "bad grammar")]
    answer = await proxy.chat()
    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == "bad grammar"
    assert proxy.outcomes == {("pd", "decode_400"): 1}


# ---- D dies mid-stream


@pytest.mark.parametrize("tail", [b"", b"3", b"40\r\ndata: {"], ids=["between chunks", "in a size", "in a chunk"])
async def test_death_mid_stream_is_an_error_event(launch: Launch, tail: bytes) -> None:
    proxy = await launch()
    proxy.decodes[0].faults = [faults.dies_after(2, tail)]
    answer = await proxy.chat("a b c d", stream=True)
    assert words(answer.text) == ["a", "b"]
    *_, error, done = events(answer.text)
    assert error["error"]["code"] == "stream_broken"
    assert done == "[DONE]"
    assert len(proxy.decodes[0].calls) == 1, "nothing is retried that could repeat tokens"
    assert proxy.outcomes == {("pd", "stream_broken"): 1}


async def test_death_mid_stream_in_the_protocol_of_messages(launch: Launch) -> None:
    proxy = await launch()
    proxy.prefills[0].always = faults.ends_by_stop
    proxy.decodes[0].faults = [faults.dies_after(1)]
    answer = await proxy.chat("a b", path="/v1/messages", max_tokens=9, stream=True)
    assert "event: error\n" in answer.text
    assert events(answer.text)[-1]["type"] == "error"


async def test_stalled_stream_meets_the_idle_deadline(launch: Launch) -> None:
    proxy = await launch(idle_timeout=120)
    proxy.decodes[0].delay = asyncio.Event()
    async with proxy.client.stream("POST", "/v1/chat/completions", content=chat_body("a b", stream=True)) as answer:
        pieces = answer.aiter_text()
        await anext(pieces)
        proxy.skip(121)
        rest = "".join([piece async for piece in pieces])
    assert events(rest)[0]["error"]["code"] == "stream_broken"


# ---- D reports a failed load inside a 200 stream


async def test_error_event_before_any_token_is_retried(launch: Launch) -> None:
    proxy = await launch()
    proxy.decodes[0].faults = [faults.error_event]
    answer = await proxy.chat("a b", stream=True)
    assert words(answer.text) == ["a", "b"]
    assert answer.headers["x-pdserving-path"] == "retry"
    failures = proxy.app.gateway.metrics.leg_failures.values
    assert {(role, cause): n for (role, _, cause), n in failures.items()} == {("decode", "error-event"): 1}


# ---- the client leaves


async def test_client_leaves_while_prefill_works(launch: Launch) -> None:
    proxy = await launch()
    proxy.prefills[0].always = faults.hang
    async with connect(proxy) as client:
        await client.send(post(chat_body()))
        call = await proxy.prefills[0].called(1)
    await asyncio.wait_for(call.closed.wait(), 5)
    assert not proxy.decodes[0].calls
    assert proxy.outcomes == {("pd", "client_left"): 1}
    assert proxy.app.gateway.in_flight == 0


async def test_client_leaves_while_decode_waits(launch: Launch) -> None:
    """D's leg outlives the client by a second, so that D has told P; then it ends."""
    proxy = await launch()
    proxy.decodes[0].always = faults.hang
    async with connect(proxy) as client:
        await client.send(post(chat_body(stream=True)))
        call = await proxy.decodes[0].called(1)
    await until(lambda: proxy.outcomes == {("pd", "client_left"): 1})
    assert not call.closed.is_set()
    proxy.skip(1.2)
    await asyncio.wait_for(call.closed.wait(), 5)
    assert proxy.app.pool.decodes[0].in_flight == 0


async def test_client_leaves_just_before_decode_answers(launch: Launch) -> None:
    proxy = await launch()
    gate = asyncio.Event()

    async def late(exchange: faults.Exchange) -> None:
        await gate.wait()
        await exchange.serve()
        await exchange.hang()

    proxy.decodes[0].always = late
    async with connect(proxy) as client:
        await client.send(post(chat_body(stream=True)))
        call = await proxy.decodes[0].called(1)
    await until(lambda: proxy.outcomes == {("pd", "client_left"): 1})
    gate.set()
    await asyncio.wait_for(call.closed.wait(), 5)
    assert not proxy.prefills[0].held, "D fetched what P held"


async def test_client_leaves_mid_stream(launch: Launch) -> None:
    proxy = await launch()

    async def endless(exchange: faults.Exchange) -> None:
        await exchange.start_stream()
        await exchange.send_event(exchange.piece("a", None))
        await exchange.hang()

    proxy.decodes[0].always = endless
    async with connect(proxy) as client:
        await client.send(post(chat_body(stream=True)))
        await client.reader.readuntil(b'"a"')
    await asyncio.wait_for(proxy.decodes[0].calls[0].closed.wait(), 5)
    assert proxy.outcomes == {("pd", "client_left"): 1}


async def test_blocks_that_no_decode_fetches_are_released(launch: Launch) -> None:
    """Both tries meet dead engines; a third D is asked to have P free the blocks."""
    proxy = await launch(decodes=3, max_retries=0)
    for each in proxy.decodes[1:]:
        await each.stop()
    alive = proxy.decodes[0].port
    await until(lambda: not any(each.endpoint.idle for each in proxy.app.pool.decodes if each.seen.port != alive))
    for _ in range(12):
        await proxy.chat()
    await until(lambda: not proxy.prefills[0].held)
    rejected = [call for call in proxy.decodes[0].calls if call.body["model"] == "pdserving-release"]
    released = proxy.app.gateway.metrics.releases.values.get(("done",), 0)
    assert len(rejected) == released


# ---- P restarted in place


async def test_prefill_restarted_in_place(launch: Launch) -> None:
    proxy = await launch()
    assert (await proxy.chat()).headers["x-pdserving-path"] == "pd"
    await proxy.prefills[0].stop()
    proxy.prefills[0].new_engine_id()
    await proxy.prefills[0].start()
    answers = [await proxy.chat()]
    await until(lambda: proxy.app.pool.lanes[0].prefills)
    answers.append(await proxy.chat())
    assert all(answer.status_code == 200 for answer in answers)
    assert answers[-1].headers["x-pdserving-path"] == "pd"
    assert proxy.decodes[0].stuck == 0
    assert proxy.decodes[0].calls[-1].body["kv_transfer_params"]["remote_engine_id"] == proxy.prefills[0].engine_id


async def test_stale_engine_id_is_read_again(launch: Launch) -> None:
    """The address answered all the time, so only D's refusal tells."""
    proxy = await launch(query_interval=100)
    proxy.prefills[0].new_engine_id()
    answer = await proxy.chat()
    assert answer.status_code in {200, 502}
    await until(lambda: proxy.app.pool.prefills[0].epoch.engine_ids == {0: proxy.prefills[0].engine_id})
    assert (await proxy.chat()).headers["x-pdserving-path"] == "pd"


# ---- bootstrap incomplete, no P, no D


async def test_no_prefill_is_ready(launch: Launch) -> None:
    proxy = await launch(prefills=0)
    answer = await proxy.chat("alone")
    assert answer.headers["x-pdserving-path"] == "local"
    assert answer.json()["choices"][0]["message"]["content"] == "alone"


async def test_no_decode_is_ready(launch: Launch) -> None:
    proxy = await launch(decodes=0)
    answer = await proxy.chat()
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"
    assert answer.json()["error"]["code"] == "decode_unavailable"
    ready = await proxy.client.get("/ready")
    assert ready.status_code == 503
    assert "no decode engine is ready" in ready.json()["problems"]


# ---- a pair that fails repeatedly


async def test_failing_pair_is_quarantined_and_probed(launch: Launch) -> None:
    proxy = await launch(decodes=2)
    bad, good = proxy.decodes
    bad.always = faults.status(500)
    async with asyncio.timeout(PATIENCE):
        while not any(pair["quarantined_for"] for pair in (await proxy.admin("/debug/pairs"))["pairs"]):
            assert (await proxy.chat()).status_code == 200
    pairs = (await proxy.admin("/debug/pairs"))["pairs"]
    assert [(pair["decode"], pair["failures"]) for pair in pairs] == [(f"127.0.0.1:{bad.port}", 3)]
    before = len(bad.calls)
    for _ in range(10):
        assert (await proxy.chat()).headers["x-pdserving-decode"] == f"127.0.0.1:{good.port}"
    assert len(bad.calls) == before
    bad.always = None
    proxy.skip(6)
    async with asyncio.timeout(PATIENCE):
        while (await proxy.admin("/debug/pairs"))["pairs"]:
            assert (await proxy.chat()).status_code == 200


# ---- limits


async def test_too_many_requests(launch: Launch) -> None:
    proxy = await launch(max_in_flight=1)
    proxy.prefills[0].always = faults.hang
    first = asyncio.create_task(proxy.chat())
    await proxy.prefills[0].called(1)
    second = await proxy.chat()
    assert second.status_code == 429
    assert second.headers["retry-after"] == "1"
    first.cancel()


async def test_drain(launch: Launch) -> None:
    """Readiness off, no new connections, running streams finish."""
    proxy = await launch(drain_timeout=5)
    proxy.decodes[0].delay = asyncio.Event()
    async with proxy.client.stream("POST", "/v1/chat/completions", content=chat_body("a b", stream=True)) as answer:
        pieces = answer.aiter_text()
        await anext(pieces)
        stopping = asyncio.create_task(proxy.app.stop())
        await until(lambda: proxy.app.gateway.draining)
        assert not (await proxy.admin("/ready"))["ready"]
        with pytest.raises(ConnectionError):
            await asyncio.open_connection("127.0.0.1", proxy.port)
        proxy.decodes[0].delay.set()
        assert events("".join([piece async for piece in pieces]))[-1] == "[DONE]"
    await stopping


# ---- options


async def test_short_prompts_skip_prefill_when_asked_to(launch: Launch) -> None:
    proxy = await launch(local_prefill_below_tokens=100)
    assert (await proxy.chat("short")).headers["x-pdserving-path"] == "local"
    assert (await proxy.chat("long " * 200)).headers["x-pdserving-path"] == "pd"
    assert proxy.app.gateway.metrics.local.values == {("short",): 1}


async def test_access_log_has_a_line_for_each_request(launch: Launch) -> None:
    proxy = await launch(access_log=True)
    written: list[bytes] = []
    log = proxy.app.gateway.access_log
    assert log is not None
    log._write = written.append
    await proxy.chat(stream=True)
    await proxy.chat()
    await until(lambda: b"".join(written).count(b"\n") == 2)
    first, _ = (json.loads(line) for line in b"".join(written).splitlines())
    assert first["path"] == "pd"
    assert first["outcome"] == "ok"
    assert first["prompt_tokens"] == 3
    assert 0 < first["first_byte_ms"] <= first["total_ms"]
