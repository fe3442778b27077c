"""A canary tells a pair that works from each way in which one does not, and never guesses."""

import asyncio
from typing import Any

import pytest

from pdserving.api import conditions as c
from pdserving.proxy import canary
from pdserving.proxy.canary import HALF, LENGTH, TOKENS, run_canary
from pdserving.proxy.canary_engine import Outcome
from pdserving.proxy.pool import Engine
from tests.proxy.conftest import Launch, Proxy, until
from tests.proxy.engine import Exchange, FakeEngine, ends_by_stop, hang, status


async def fly(proxy: Proxy) -> Outcome:
    (lane,) = proxy.app.pool.lanes
    return await run_canary(proxy.app.gateway, lane.prefills[0], lane.decodes[0])


def extra(engine: FakeEngine, source: str, tokens: int) -> Any:
    """Another user's prompt is counted while the canary is served."""

    async def fault(exchange: Exchange) -> bool:
        engine.counts[source] += tokens
        await exchange.serve()
        return True

    return fault


async def test_a_healthy_pair_is_verified(launch: Launch) -> None:
    proxy = await launch()
    assert await fly(proxy) == Outcome(c.VERIFIED)
    (asked,) = proxy.prefills[0].calls
    fetched, computed, hit = (call.body for call in proxy.decodes[0].calls)
    assert asked.body["prompt"] == fetched["prompt"] == computed["prompt"]
    assert len(asked.body["prompt"]) == LENGTH
    assert fetched["kv_transfer_params"]["transfer_id"] == asked.body["kv_transfer_params"]["transfer_id"]
    assert fetched["cache_salt"] == asked.body["cache_salt"] != computed["cache_salt"] == hit["cache_salt"]
    assert "kv_transfer_params" not in computed
    assert not proxy.prefills[0].held


async def test_two_hundred_canaries_find_nothing_on_a_healthy_pair(launch: Launch) -> None:
    proxy = await launch()
    assert {await fly(proxy) for _ in range(200)} == {Outcome(c.VERIFIED)}
    prompts = {str(call.body["prompt"]) for call in proxy.prefills[0].calls}
    assert len(prompts) == 200


async def test_a_decode_engine_that_computes_instead_is_found_though_its_tokens_are_right(launch: Launch) -> None:
    proxy = await launch()
    proxy.decodes[0].moves = False
    outcome = await fly(proxy)
    assert outcome.reason == c.NO_KV_MOVED
    assert outcome.text == f"the decode engine fetched 0 of {LENGTH} prompt tokens and computed {LENGTH}"


async def test_kv_cache_of_other_weights_is_found_by_its_tokens(launch: Launch) -> None:
    proxy = await launch()
    proxy.prefills[0].weights = "b"
    outcome = await fly(proxy)
    assert outcome.reason == c.WRONG_TOKENS
    assert outcome.text.endswith("from token 1 on")


async def test_tokens_are_compared_with_a_prefix_hit(launch: Launch) -> None:
    proxy = await launch()
    proxy.decodes[0].rounds = True
    assert await fly(proxy) == Outcome(c.VERIFIED)


@pytest.mark.parametrize("blur", ["caches", "prefill", "decode"])
async def test_unequal_tokens_under_unequal_conditions_prove_nothing(launch: Launch, blur: str) -> None:
    proxy = await launch()
    proxy.prefills[0].weights = "b"
    if blur == "caches":
        proxy.decodes[0].caches = False
    else:
        {"prefill": proxy.prefills, "decode": proxy.decodes}[blur][0].running = 1
    assert (await fly(proxy)).reason == c.CANARY_INCONCLUSIVE


async def test_unequal_tokens_beside_somebody_elses_prompt_prove_nothing(launch: Launch) -> None:
    proxy = await launch()
    proxy.prefills[0].weights = "b"
    proxy.decodes[0].faults = [None, None, extra(proxy.decodes[0], "local_cache_hit", 40)]
    assert (await fly(proxy)).reason == c.CANARY_INCONCLUSIVE


@pytest.mark.parametrize(("moves", "source"), [(True, "local_compute"), (False, "external_kv_transfer")])
async def test_somebody_elses_tokens_are_no_evidence(launch: Launch, moves: bool, source: str) -> None:
    proxy = await launch()
    proxy.decodes[0].moves = moves
    proxy.decodes[0].faults = [extra(proxy.decodes[0], source, LENGTH)]
    outcome = await fly(proxy)
    assert outcome == Outcome(c.CANARY_INCONCLUSIVE, "in the counters other requests hide what the canary did")


async def test_a_prompt_that_is_not_counted_proves_nothing(launch: Launch) -> None:
    async def uncounted(exchange: Exchange) -> bool:
        before = dict(exchange.engine.counts)
        await exchange.serve()
        exchange.engine.counts = before
        return True

    proxy = await launch()
    proxy.decodes[0].faults = [uncounted]
    outcome = await fly(proxy)
    assert outcome.reason == c.CANARY_INCONCLUSIVE
    assert outcome.text.endswith("did not count the prompt")


async def test_few_tokens_of_somebody_else_do_no_harm(launch: Launch) -> None:
    proxy = await launch()
    proxy.decodes[0].faults = [extra(proxy.decodes[0], "local_compute", HALF - 2)]
    assert await fly(proxy) == Outcome(c.VERIFIED)


@pytest.mark.parametrize("role", ["prefill", "decode"])
async def test_engines_with_a_queue_get_no_canary(launch: Launch, role: str) -> None:
    proxy = await launch()
    {"prefill": proxy.prefills, "decode": proxy.decodes}[role][0].waiting = 1
    assert (await fly(proxy)).reason == c.ENGINES_BUSY
    assert not proxy.prefills[0].calls
    assert not proxy.decodes[0].calls


async def test_a_failed_load_is_a_failed_transfer(launch: Launch) -> None:
    proxy = await launch()
    proxy.decodes[0].faults = [status(500, "KV load failed")]
    name = proxy.app.pool.decodes[0].seen.pod
    assert await fly(proxy) == Outcome(
        c.TRANSFER_FAILED, f"decode engine {name} answered with status 500: KV load failed"
    )


@pytest.mark.parametrize("role", ["prefill", "decode"])
async def test_no_answer_is_a_timeout(launch: Launch, role: str) -> None:
    proxy = await launch(first_byte_timeout=0.05)
    {"prefill": proxy.prefills, "decode": proxy.decodes}[role][0].faults = [hang]
    outcome = await fly(proxy)
    assert outcome.reason == c.TRANSFER_TIMED_OUT
    assert outcome.text.endswith("no answer in 0.05 s")


async def test_a_failure_of_the_reference_is_no_symptom(launch: Launch) -> None:
    proxy = await launch()
    proxy.decodes[0].faults = [None, status(500)]
    outcome = await fly(proxy)
    assert outcome.reason == c.CANARY_INCONCLUSIVE
    assert outcome.text.startswith("without a transfer decode engine ")


@pytest.mark.parametrize("role", ["prefill", "decode"])
async def test_an_api_key_is_told_and_no_failure(launch: Launch, role: str) -> None:
    proxy = await launch()
    {"prefill": proxy.prefills, "decode": proxy.decodes}[role][0].api_key = True
    outcome = await fly(proxy)
    assert outcome.reason == c.CANARY_REFUSED
    assert outcome.text.endswith("answered with status 401: Unauthorized")


@pytest.mark.parametrize("code", [408, 429, 503])
async def test_an_engine_that_may_answer_later_is_not_judged(launch: Launch, code: int) -> None:
    proxy = await launch()
    proxy.decodes[0].faults = [status(code)]
    assert (await fly(proxy)).reason == c.CANARY_INCONCLUSIVE


async def test_a_prompt_that_prefill_ended_early_is_not_asked_of_decode(launch: Launch) -> None:
    proxy = await launch()
    proxy.prefills[0].faults = [ends_by_stop]
    assert (await fly(proxy)).reason == c.CANARY_INCONCLUSIVE
    assert not proxy.decodes[0].calls


async def test_prefill_must_count_a_transfer_if_it_counts_any(launch: Launch, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = await launch()
    monkeypatch.setattr(canary, "COUNT_SECONDS", 0.05)
    for nothing in (None, 0):
        proxy.prefills[0].sent, proxy.prefills[0].counts_sent = nothing, False
        assert await fly(proxy) == Outcome(c.VERIFIED)
    proxy.prefills[0].sent, proxy.prefills[0].counts_sent = 3, False
    outcome = await fly(proxy)
    assert outcome.reason == c.CANARY_INCONCLUSIVE
    assert outcome.text.endswith("counts no transfer")


async def test_canaries_of_an_idle_engine_measure_its_rate(launch: Launch) -> None:
    proxy = await launch()
    rates, (engine,) = proxy.app.gateway.rates, proxy.app.pool.prefills
    for _ in range(5):
        await fly(proxy)
    assert rates.describe(engine) is None, (
        "P counts nothing before its first transfer, and the second is the first seen"
    )
    await fly(proxy)
    described = rates.describe(engine)
    assert described is not None
    assert described["rate"] == pytest.approx((32 << 20) / 0.015, rel=0.001)
    assert described["ceiling"] == pytest.approx((32 << 20) / 0.010, rel=0.001)
    (entry,) = (await proxy.admin("/debug/pool"))["prefill"]
    assert entry["sends"] == described


async def test_a_busy_engine_is_not_measured(launch: Launch) -> None:
    proxy = await launch()
    proxy.prefills[0].running = 1
    for _ in range(8):
        assert await fly(proxy) == Outcome(c.VERIFIED)
    assert proxy.app.gateway.rates.describe(proxy.app.pool.prefills[0]) is None


async def test_an_answer_without_token_ids_proves_nothing(launch: Launch) -> None:
    proxy = await launch()
    proxy.decodes[0].faults = [ends_by_stop]
    outcome = await fly(proxy)
    assert outcome.reason == c.CANARY_INCONCLUSIVE
    assert outcome.text.endswith(f"did not answer with {TOKENS} token ids")


async def test_decode_is_asked_when_the_engine_id_was_read_after_the_connection(
    launch: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = await launch()
    (prefill,) = proxy.app.pool.prefills
    prefill.endpoint.dialed = None
    read: list[Engine] = []
    monkeypatch.setattr(proxy.app.gateway.epochs, "recheck", read.append)
    flight = asyncio.create_task(fly(proxy))
    await until(lambda: read)
    assert not proxy.decodes[0].calls
    prefill.wake()
    assert await flight == Outcome(c.VERIFIED)


async def test_the_stale_engine_id_of_a_restarted_prefill_is_not_given_to_decode(launch: Launch) -> None:
    proxy = await launch()
    (lane,) = proxy.app.pool.lanes
    prefill, decode = lane.prefills[0], lane.decodes[0]
    proxy.prefills[0].new_engine_id()
    outcome = await run_canary(proxy.app.gateway, prefill, decode)
    assert outcome.reason == c.CANARY_INCONCLUSIVE
    assert not proxy.decodes[0].calls


async def test_load_is_counted_and_given_back(launch: Launch) -> None:
    proxy = await launch()
    proxy.decodes[0].always = status(500)
    await fly(proxy)
    assert [engine.in_flight for engine in proxy.app.pool.engines.values()] == [0, 0]
