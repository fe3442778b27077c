"""Several HCAs on InfiniBand: those that the spec names carry the bytes, and one of them may be lost."""

from collections.abc import Iterator

import pytest

from e2e.lib.counted import LENGTH, ask_and_count, right_tokens
from e2e.lib.engine import Engine
from e2e.lib.fabric import RAILS, Fabric, moved, rdma_spec
from e2e.lib.groups import Group
from e2e.lib.kubectl import Kubectl
from e2e.lib.release import Release
from e2e.lib.target import Target

NAMED, OTHER = ("mlx5_0", "mlx5_1"), "mlx5_2"


@pytest.fixture(scope="module")
def group(target: Target, kubectl: Kubectl, fabric: Fabric, release: Release) -> Iterator[Group]:
    found = Group(kubectl, "rails")
    found.apply(rdma_spec(target.engine_image, RAILS, hcas=list(NAMED)))
    found.wait_ready()
    yield found
    found.delete()


@pytest.fixture
def url(target: Target, kubectl: Kubectl, group: Group, fabric: Fabric) -> Iterator[str]:
    with target.reach(kubectl, group.name, 80) as address:
        yield address
    fabric.heal()


def ask_rightly(url: str, decoder: Engine, seed: int) -> None:
    answer, count = ask_and_count(url, decoder, seed)
    assert answer.tokens == right_tokens(decoder, seed)
    assert count >= LENGTH - 1


def test_only_named_hcas_are_used(url: str, group: Group) -> None:
    (prefill,), (decoder,) = group.engines("prefill"), group.engines("decode")
    assert "InfiniBand" in group.wait_condition("PreflightPassed", "True", 60)["message"]
    for seed in range(4):
        ask_rightly(url, decoder, seed)
    assert all(moved(prefill, "tx_bytes", hca) > 0 for hca in NAMED)
    assert moved(prefill, "tx_bytes", OTHER) == 0


def test_a_lost_hca_is_made_up_for_by_the_other(url: str, group: Group, fabric: Fabric) -> None:
    (prefill,), (decoder,) = group.engines("prefill"), group.engines("decode")
    ask_rightly(url, decoder, 10)
    fabric.change_rail("prefill", "mlx5_0", "state = DOWN")
    lost = moved(prefill, "tx_bytes", "mlx5_0")
    for seed in (11, 12):
        ask_rightly(url, decoder, seed)
    assert moved(prefill, "tx_bytes", "mlx5_0") == lost
