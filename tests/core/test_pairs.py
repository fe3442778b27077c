"""KVTransferVerified, from what proxies say of canaries."""

from typing import Any

import pytest

from pdserving.api import conditions as c
from pdserving.api.v1alpha1.status import MAX_PAIRS
from pdserving.core.observed import Observed
from pdserving.core.pairs import build_pairs, judge_pairs
from pdserving.core.view import View, read_view
from tests.core.fake_cluster import make_pair
from tests.core.samples import make_pod

LANE = "00000000"


def view(*pools: list[dict[str, Any]], prefills: int = 2, decodes: int = 2, flow: str = "unknown") -> View:
    """Two by two ready engines p-0, p-1, d-0, d-1, and proxies that say this of pairs."""
    names = [*(("prefill", f"p-{n}") for n in range(prefills)), *(("decode", f"d-{n}") for n in range(decodes))]
    pods = [make_pod(name, role) for role, name in names]
    for pod in pods:
        pod["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    kv = [{"pod": name, "uid": f"{name}-uid", "kv": {"state": flow, "asked": 96}} for role, name in names]
    return read_view(Observed(pods=tuple(pods), pools=tuple({"pairs": pairs, "decode": kv} for pairs in pools)))


def failed(prefill: str, decode: str, **said: Any) -> dict[str, Any]:
    told = {"state": "failed", "reason": c.WRONG_TOKENS, "message": "answers otherwise"}
    return make_pair(prefill, decode, **{**told, **said})


def unknown(prefill: str, decode: str, reason: str = c.VERIFYING, message: str = "") -> dict[str, Any]:
    return make_pair(prefill, decode, state="unknown", reason=reason, message=message, age=None)


def test_it_is_true_when_each_engine_is_in_a_proven_pair():
    verdict = judge_pairs(view([make_pair("p-0", "d-0"), make_pair("p-1", "d-1"), unknown("p-0", "d-1")]), LANE)
    assert (verdict.status, verdict.reason) == ("True", c.VERIFIED)
    assert verdict.message == "4 of 4 engines passed a canary: KV cache moves and gives right tokens"


def test_one_engine_in_no_proven_pair_leaves_it_open():
    verdict = judge_pairs(view([make_pair("p-0", "d-0"), make_pair("p-1", "d-0"), unknown("p-0", "d-1")]), LANE)
    assert (verdict.status, verdict.reason, verdict.message) == (
        "Unknown",
        c.VERIFYING,
        "3 of 4 engines passed a canary",
    )


def test_what_different_proxies_proved_adds_up():
    assert judge_pairs(view([make_pair("p-0", "d-0")], [make_pair("p-1", "d-1")]), LANE).status == "True"


def test_one_failed_pair_is_named_with_its_symptom_and_the_remedy():
    verdict = judge_pairs(view([make_pair("p-0", "d-0"), make_pair("p-1", "d-1"), failed("p-0", "d-1")]), LANE)
    assert (verdict.status, verdict.reason) == ("False", c.WRONG_TOKENS)
    assert verdict.message == (
        "1 of 3 pairs of engines fail their canaries: p-0 → d-1: answers otherwise; "
        "compare model, revision and vLLM version of the two pods"
    )


@pytest.mark.parametrize(("failed_ago", "status"), [(5, "False"), (50, "True")])
def test_the_proxy_that_looked_last_is_right(failed_ago: int, status: str):
    pools = [failed("p-0", "d-0", age=failed_ago)], [make_pair("p-0", "d-0", age=20)]
    assert judge_pairs(view(*pools, prefills=1, decodes=1), LANE).status == status


def test_a_proxy_that_knows_nothing_yet_takes_nothing_away():
    pools = [unknown("p-0", "d-0")], [make_pair("p-0", "d-0", age=500)]
    assert judge_pairs(view(*pools, prefills=1, decodes=1), LANE).status == "True"


def test_why_nothing_can_be_said_is_told():
    refused = unknown("p-0", "d-0", c.CANARY_REFUSED, "decode engine d-0 answered with status 401")
    verdict = judge_pairs(view([refused], prefills=1, decodes=1), LANE)
    assert (verdict.status, verdict.reason) == ("Unknown", c.CANARY_REFUSED)
    assert "status 401" in verdict.message
    assert 'set spec.verification.mode to "Off"' in verdict.message


@pytest.mark.parametrize(("flow", "status"), [("not_moving", "False"), ("moving", "Unknown")])
def test_where_engines_are_too_busy_the_counters_judge(flow: str, status: str):
    busy = unknown("p-0", "d-0", c.ENGINES_BUSY, "requests wait")
    assert judge_pairs(view([busy], prefills=1, decodes=1, flow=flow), LANE).status == status


def test_counters_alone_accuse_nobody_whom_a_canary_can_ask():
    assert (
        judge_pairs(view([unknown("p-0", "d-0")], prefills=1, decodes=1, flow="not_moving"), LANE).status == "Unknown"
    )


@pytest.mark.parametrize("which", ["prefill_uid", "decode_uid"])
def test_what_was_said_of_an_earlier_pod_does_not_count(which: str):
    stale = failed("p-0", "d-0", **{which: "another"})
    assert judge_pairs(view([stale], prefills=1, decodes=1), LANE).status == "Unknown"


def test_without_a_ready_engine_there_is_nothing_to_verify():
    verdict = judge_pairs(view([], prefills=0), LANE)
    assert (verdict.status, verdict.reason) == ("Unknown", c.VERIFYING)


@pytest.mark.parametrize("nonsense", [{}, {"pairs": None}, {"pairs": 7}])
def test_a_report_of_another_version_is_no_report(nonsense: dict[str, Any]):
    engines = view(prefills=1, decodes=1).observed.pods
    verdict = judge_pairs(read_view(Observed(pods=engines, pools=(nonsense,))), LANE)
    assert (verdict.status, verdict.reason) == ("Unknown", c.NO_PROXY_REPORT)


def test_nonsense_in_a_report_is_left_out():
    odd = [None, {}, {"state": "failed"}, make_pair("p-0", "d-0", state=[]), make_pair("p-0", "d-0", age="old")]
    assert judge_pairs(view(odd, prefills=1, decodes=1), LANE).status == "True"


def test_the_matrix_is_bounded_and_failed_pairs_come_first():
    pairs = [make_pair(f"p-{p}", f"d-{d}") for p in range(6) for d in range(6)]
    pairs[-1] = failed("p-5", "d-5")
    told = build_pairs(view(pairs, prefills=6, decodes=6), LANE)
    assert len(told) == MAX_PAIRS
    assert told[0] == {"prefill": "p-5", "decode": "d-5", "state": "failed", "error": "WrongTokens: answers otherwise"}
    assert told[1] == {"prefill": "p-0", "decode": "d-0", "state": "verified"}
