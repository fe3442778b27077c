"""Engines in their node's own network: ports that don't collide, KV cache that moves, a second group that can't fit."""

from collections.abc import Iterator

import pytest

from e2e.lib.counted import LENGTH, ask_and_count, right_tokens
from e2e.lib.fabric import RESOURCE, Fabric, rdma_spec
from e2e.lib.groups import Group, merged
from e2e.lib.kubectl import Kubectl
from e2e.lib.release import Release
from e2e.lib.target import Target


def spec(image: str) -> dict[str, object]:
    base = rdma_spec(image)
    base["transfer"]["rdma"] = {"hostNetwork": {"resource": RESOURCE}}
    return base


@pytest.fixture(scope="module")
def metal(target: Target, kubectl: Kubectl, fabric: Fabric, release: Release) -> Iterator[Group]:
    found = Group(kubectl, "metal")
    found.apply(spec(target.engine_image))
    found.wait_ready()
    yield found
    found.delete()


def test_tokens_are_right_and_kv_cache_moves(target: Target, kubectl: Kubectl, metal: Group) -> None:
    (decoder,) = metal.engines("decode")
    with target.reach(kubectl, metal.name, 80) as url:
        answer, count = ask_and_count(url, decoder, 1)
    assert answer.tokens == right_tokens(decoder, 1)
    assert count >= LENGTH - 1


def test_engines_have_the_address_of_their_node(metal: Group) -> None:
    for pod in (*metal.pods("prefill"), *metal.pods("decode")):
        assert pod["status"]["podIP"] == pod["status"]["hostIP"]


def test_a_second_group_on_the_node_is_told_of_the_ports(target: Target, kubectl: Kubectl, metal: Group) -> None:
    second = Group(kubectl, "second")
    second.apply(merged(spec(target.engine_image), {"decode": {"replicas": 0}, "prefill": {"replicas": 8}}))
    try:
        stalled = second.wait_condition("Stalled", "True", 60)
    finally:
        second.delete()
    assert stalled["reason"] == "Unschedulable"
    assert "free ports" in stalled["message"]
