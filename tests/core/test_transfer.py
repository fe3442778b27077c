"""KVTransferVerified, from what proxies say of decode engines."""

from typing import Any

import pytest

from pdserving.api import conditions as c
from pdserving.core.observed import Observed
from pdserving.core.transfer import judge_transfer
from pdserving.core.view import View, read_view
from tests.core.samples import make_pod

LANE = "00000000"


def view(pools: list[dict[str, Any]], pods: tuple[str, ...] = ("d-0", "d-1")) -> View:
    ready = [make_pod(name, "decode") for name in pods]
    for pod in ready:
        pod["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    return read_view(Observed(pods=tuple(ready), pools=tuple(pools)))


def pool(**states: str) -> dict[str, Any]:
    flows = {name.replace("_", "-"): {"state": state, "asked": 96, "computed": 95} for name, state in states.items()}
    return {"decode": [{"pod": name, "uid": f"{name}-uid", "kv": flow} for name, flow in flows.items()]}


def test_engines_that_each_some_proxy_saw_fetch_are_verified():
    verdict = judge_transfer(view([pool(d_0="moving", d_1="unknown"), pool(d_0="unknown", d_1="moving")]), LANE)
    assert (verdict.status, verdict.reason) == ("True", c.KV_MOVES)
    assert verdict.message == "2 of 2 decode engines have fetched KV cache from prefill"


def test_one_that_computes_what_it_should_fetch_is_named_with_numbers():
    verdict = judge_transfer(view([pool(d_0="moving", d_1="moving"), pool(d_0="moving", d_1="not_moving")]), LANE)
    assert (verdict.status, verdict.reason) == ("False", c.NO_KV_MOVED)
    assert verdict.message.startswith(
        "1 of 2 decode engines compute prompts that they should fetch: d-1 computed 95 tokens of 96 and fetched none"
    )


def test_without_traffic_nothing_is_claimed():
    verdict = judge_transfer(view([pool(d_0="moving", d_1="unknown")]), LANE)
    assert (verdict.status, verdict.reason) == ("Unknown", c.NO_TRANSFER_SEEN)


def test_what_was_said_of_an_earlier_pod_of_that_name_does_not_count():
    earlier = pool(d_0="not_moving")
    earlier["decode"][0]["uid"] = "another"
    assert judge_transfer(view([earlier], ("d-0",)), LANE).status == "Unknown"


@pytest.mark.parametrize("nonsense", [{}, {"decode": None}, {"decode": [None, {"pod": "d-0", "kv": 7}]}])
def test_a_report_of_another_version_is_no_report(nonsense):
    assert judge_transfer(view([nonsense]), LANE).status == "Unknown"
