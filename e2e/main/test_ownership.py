"""What the operator owns comes back; what it does not own it leaves alone."""

from typing import Any

import pytest

from e2e.lib.groups import Group
from e2e.lib.waiting import eventually
from pdserving.api import labels

SECONDS = 30.0
REPLACED = ("service", "deployment", "networkpolicy", "poddisruptionbudget", "rolebinding", "serviceaccount")
"""Kinds whose loss hurts no running engine."""


@pytest.mark.parametrize("kind", REPLACED)
def test_a_deleted_child_comes_back(group: Group, kind: str) -> None:
    lost = group.owned(kind)[0]["metadata"]
    group.kubectl.delete(kind, lost["name"], "--wait=false")

    def replaced() -> bool:
        found = group.kubectl.find(kind, lost["name"])
        return found is not None and found["metadata"]["uid"] != lost["uid"]

    eventually(f"{kind} {lost['name']} is back", replaced, within=SECONDS)
    group.wait_ready(120)


def test_an_edited_child_is_put_right(group: Group) -> None:
    service = group.kubectl.get("service", group.name)
    group.kubectl.patch("service", group.name, {"spec": {"selector": {labels.ROLE_LABEL: "nobody"}}})

    def right() -> bool:
        spec = group.kubectl.get("service", group.name)["spec"]
        return bool(spec["selector"] == service["spec"]["selector"])

    eventually("the Service selects the proxies again", right, within=SECONDS)


def test_an_autoscaler_may_own_replicas(group: Group) -> None:
    """Without replicas in the spec another field manager sets them, and the operator never sets them back."""
    decode = _engine_set(group, "decode")
    group.patch({"decode": {"replicas": None}})
    group.wait_ready(60)
    group.kubectl.run("scale", f"statefulset/{decode['metadata']['name']}", "--replicas=0")
    group.kubectl.patch(labels.KIND, group.name, {"metadata": {"annotations": {"e2e/poke": "now"}}})
    group.wait_condition("DecodeAvailable", "False", 60)
    assert _engine_set(group, "decode")["spec"]["replicas"] == 0
    group.patch({"decode": {"replicas": 1}})
    group.wait_ready()


def test_foreign_labels_and_annotations_stay(group: Group) -> None:
    name = _engine_set(group, "prefill")["metadata"]["name"]
    group.kubectl.run("annotate", "statefulset", name, "example.com/owner=somebody", "--overwrite")
    group.kubectl.run("label", "service", group.name, "example.com/team=search", "--overwrite")
    group.kubectl.patch(labels.KIND, group.name, {"metadata": {"annotations": {"e2e/poke": "again"}}})
    group.patch({"proxy": {"maxRetries": 2}})
    group.wait_ready(120)
    assert _engine_set(group, "prefill")["metadata"]["annotations"]["example.com/owner"] == "somebody"
    assert group.kubectl.get("service", group.name)["metadata"]["labels"]["example.com/team"] == "search"


def _engine_set(group: Group, role: str) -> dict[str, Any]:
    (found,) = group.kubectl.list("statefulsets", f"{labels.GROUP_LABEL}={group.name},{labels.ROLE_LABEL}={role}")
    return found
