"""Canaries: a healthy group is verified before anybody asked it, and KV cache of other weights is found out."""

from collections.abc import Iterator
from typing import Any

import pytest

from e2e.lib.engine import transferred
from e2e.lib.groups import START_SECONDS, Group
from e2e.lib.waiting import eventually

CONDITION = "KVTransferVerified"
SECONDS = 180.0
INTERVAL = 30
FILE = "model.safetensors"
_SCRAMBLE = f"""
from safetensors.numpy import load_file, save_file
weights = load_file("/model/{FILE}")
other = {{name: value[::-1].copy() for name, value in weights.items()}}
save_file(other, "/other/{FILE}", metadata={{"format": "pt"}})
"""


@pytest.fixture(scope="module")
def verified(group: Group) -> Iterator[Group]:
    """The shared group with canaries; nobody sends a request."""
    group.patch({"verification": {"mode": "Enforce", "intervalSeconds": INTERVAL}})
    yield group
    group.patch({"verification": {"mode": "Off"}})
    group.wait_ready()


def fetched(group: Group) -> float:
    return sum(transferred(engine.counters()) for engine in group.engines("decode"))


def test_a_healthy_group_is_verified_without_any_request(verified: Group) -> None:
    told = verified.wait_condition(CONDITION, "True", SECONDS)
    assert told["reason"] == "Verified", told
    verified.wait_ready(SECONDS)
    states = {pair["state"] for pair in verified.get()["status"]["pairs"]}
    assert "verified" in states
    assert "failed" not in states


def test_a_restarted_prefill_engine_is_verified_anew(verified: Group) -> None:
    (prefiller,) = verified.engines("prefill")
    restarts = prefiller.restarts()
    prefiller.kill()
    eventually("the engine is restarted", lambda: prefiller.restarts() > restarts, within=SECONDS)
    verified.wait_pods("prefill", 1, START_SECONDS)
    before = fetched(verified)
    eventually("decode engines fetch from it", lambda: fetched(verified) > before, within=SECONDS)
    verified.wait_condition(CONDITION, "True", SECONDS)
    verified.wait_ready(SECONDS)


def test_kv_cache_of_other_weights_is_found_out(verified: Group, image: str) -> None:
    """The lane can't see what a template mounts over the model; every answer would be fluent nonsense with HTTP 200."""
    verified.wait_condition(CONDITION, "True", SECONDS)
    verified.patch({"prefill": {"template": {"spec": _with_other_weights(image)}}})
    try:
        told = verified.wait_condition(CONDITION, "False", START_SECONDS)
        assert told["reason"] == "WrongTokens", told
        assert verified.wait_condition("Ready", "False", SECONDS)["reason"] == "WrongTokens"
    finally:
        verified.patch({"prefill": {"template": None}})
    verified.wait_condition(CONDITION, "True", START_SECONDS)
    verified.wait_ready(SECONDS)


@pytest.fixture
def image(verified: Group) -> str:
    """Of the group's engines."""
    name: str = verified.get()["spec"]["engine"]["image"]
    return name


def _with_other_weights(image: str) -> dict[str, Any]:
    scramble = {
        "name": "scramble",
        "image": image,
        "command": ["python", "-c", _SCRAMBLE],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [{"name": "other", "mountPath": "/other"}],
    }
    mount = {"name": "other", "mountPath": f"/model/{FILE}", "subPath": FILE, "readOnly": True}
    return {
        "initContainers": [scramble],
        "containers": [{"name": "engine", "volumeMounts": [mount]}],
        "volumes": [{"name": "other", "emptyDir": {}}],
    }
