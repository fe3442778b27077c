"""Registration of prefill engines is what proxies report, and unknown without a report."""

from typing import Any

import pytest

from pdserving.core.bootstrap import judge_bootstrap
from pdserving.core.observed import Observed
from pdserving.core.view import read_view
from tests.core.samples import make_pod

COMPLETE = {"pod": "p-0", "uid": "p-0-uid", "engine_ids": {"0": "x"}, "missing_ranks": [], "bootstrap_error": None}


def ready(name: str) -> dict[str, Any]:
    pod = make_pod(name, lane="l")
    pod["status"] = {"conditions": [{"type": "Ready", "status": "True"}]}
    return pod


def judge(*pools: Any, pods: tuple[Any, ...] = (ready("p-0"),)) -> tuple[str, str, str]:
    verdict = judge_bootstrap(read_view(Observed(pods=pods, pools=pools)), "l")
    return verdict.status, verdict.reason, verdict.message


def test_complete_in_the_eyes_of_one_proxy_is_enough() -> None:
    late = {**COMPLETE, "engine_ids": {}}
    assert judge({"prefill": [late]}, {"prefill": [COMPLETE]}) == (
        "True",
        "AllRegistered",
        "1 of 1 prefill engines have registered all ranks",
    )


def test_missing_ranks_are_named() -> None:
    entry = {**COMPLETE, "missing_ranks": ["dp0/tp1/pp0"]}
    text = "1 of 1 prefill engines are not usable: p-0 has not registered dp0/tp1/pp0"
    assert judge({"prefill": [entry]}) == ("False", "RanksMissing", text)
    assert "has not registered all ranks" in judge({"prefill": [{**COMPLETE, "engine_ids": {}}]})[2]


def test_an_error_of_the_bootstrap_server_is_told() -> None:
    status, reason, text = judge({"prefill": [{**COMPLETE, "bootstrap_error": "connection refused"}]})
    assert (status, reason) == ("False", "BootstrapUnreachable")
    assert "p-0 does not answer the proxy: connection refused; check NetworkPolicies" in text


@pytest.mark.parametrize(
    "pools", [(), ({"prefill": "x"},), ({"prefill": [1]},), ({"prefill": [{**COMPLETE, "uid": "of an earlier pod"}]},)]
)
def test_without_a_report_it_is_unknown(pools: tuple[Any, ...]) -> None:
    status, reason, text = judge(*pools)
    assert (status, reason) == ("Unknown", "NoProxyReport")
    assert text == f"no proxy reports on p-0 ({len(pools)} proxies answered)"


def test_without_a_ready_prefill_engine_there_is_nothing_to_register() -> None:
    assert judge(pods=(make_pod("p-0", lane="l"),))[:2] == ("False", "NoReadyPrefill")
