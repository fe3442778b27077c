"""RDMADegraded, from the proxies' measures and the link rates that the preflight saw."""

from typing import Any

import pytest

from pdserving.api import conditions as c
from pdserving.core.conditions import Verdict
from pdserving.core.observed import Observed
from pdserving.core.plan import plan
from pdserving.core.rates import NO_RATE, REMEDY, judge_rate
from pdserving.core.view import View, read_view
from tests.core.samples import DEFAULTS, NOW, make_group
from tests.core.test_preflight import RDMA, checked

LANE = "00000000"
NDR, EDR = "mlx5_0 400 Gb/sec (4X NDR)", "mlx5_1 100 Gb/sec (4X EDR)"
FAST = {"rate": 11e9, "ceiling": 19e9}
SLOW = {"rate": 0.8e9, "ceiling": 0.912e9}


def engine(name: str, role: str, link: str) -> dict[str, Any]:
    pod = checked(name, role, {"name": "rate", "status": "pass", "value": link})
    pod["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    return pod


def view(*pools: dict[str, Any], links: tuple[str, ...] = (NDR,), decode: str = NDR) -> View:
    """Prefill engines p-0, p-1 … with these links, one decode engine, and what proxies say of the former by name."""
    pods = [engine(f"p-{n}", "prefill", link) for n, link in enumerate(links)]
    seen = [[{"pod": pod, "uid": f"{pod}-uid", "sends": sends} for pod, sends in pool.items()] for pool in pools]
    pods.append(engine("d-0", "decode", decode))
    return read_view(Observed(pods=tuple(pods), pools=tuple({"prefill": entries} for entries in seen)))


def test_a_rate_that_rdma_can_have_is_told_with_numbers() -> None:
    text = "1 of 1 prefill engines were measured: a transfer of 11 GB/s or more over links of 50 GB/s"
    assert judge_rate(view({"p-0": FAST}), LANE) == Verdict("False", c.RATE_AS_EXPECTED, text)


def test_a_rate_that_is_no_rdmas_names_the_engine() -> None:
    text = (
        "1 of 2 prefill engines send at a rate that is no RDMA's: p-1 at most 0.91 GB/s over links of 50 GB/s; "
        f"{REMEDY}"
    )
    found = judge_rate(view({"p-0": FAST, "p-1": SLOW}, links=(NDR, NDR)), LANE)
    assert found == Verdict("True", c.SLOW_TRANSFERS, text)


def test_of_several_proxies_the_one_that_saw_it_fastest_is_believed() -> None:
    assert judge_rate(view({"p-0": SLOW}, {"p-0": FAST}), LANE).reason == c.RATE_AS_EXPECTED


@pytest.mark.parametrize(("links", "decode"), [((f"{NDR}, {EDR}",), NDR), ((NDR,), EDR)])
def test_the_slowest_link_of_both_ends_is_the_yardstick(links: tuple[str, ...], decode: str) -> None:
    assert judge_rate(view({"p-0": SLOW}, links=links, decode=decode), LANE).reason == c.RATE_AS_EXPECTED


@pytest.mark.parametrize(
    "found",
    [
        view({"p-0": None}),
        view({}),
        view(),
        view({"p-0": {"rate": 1e9}}),
        view({"p-0": SLOW}, links=("mlx5_0 unknown",)),
        view({"p-0": SLOW}, decode="mlx5_0 unknown"),
    ],
)
def test_what_was_not_measured_is_not_judged(found: View) -> None:
    text = f"0 of 1 prefill engines were measured: {NO_RATE}"
    assert judge_rate(found, LANE) == Verdict("Unknown", c.RATE_UNKNOWN, text)


def test_one_that_was_not_measured_leaves_it_open_and_hides_no_slow_one() -> None:
    assert judge_rate(view({"p-0": FAST}, links=(NDR, NDR)), LANE).status == "Unknown"
    assert judge_rate(view({"p-1": SLOW}, links=(NDR, NDR)), LANE).status == "True"


def test_a_pod_of_the_same_name_before_it_is_not_meant() -> None:
    stale = {"prefill": [{"pod": "p-0", "uid": "earlier", "sends": SLOW}]}
    assert judge_rate(read_view(Observed(pods=view().observed.pods, pools=(stale,))), LANE).status == "Unknown"


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"transfer": RDMA}, True),
        ({"transfer": {"protocol": "tcp"}}, False),
        ({"transfer": {**RDMA, "preflight": "skip"}}, False),
        ({"transfer": RDMA, "verification": {"mode": "Off"}}, False),
    ],
)
def test_it_is_told_where_it_can_be_known(spec: dict[str, Any], told: bool) -> None:
    status = plan(make_group(**spec), Observed(), NOW, DEFAULTS).status
    assert (c.RDMA_DEGRADED in {entry["type"] for entry in status["conditions"]}) is told
