"""Bad input is told clearly, makes nothing by halves and leaves a serving group alone.

The table is `e2e.lib.badinput`. Mistakes that the object alone proves are told at `kubectl apply`, trouble that only
the cluster knows is told by a condition.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.lib.asking import ask, completion
from e2e.lib.badinput import MISTAKES, TROUBLES, Mistake, Trouble
from e2e.lib.groups import Group, example_spec, make_namespace, merged
from e2e.lib.kubectl import CommandError, Kubectl
from e2e.lib.plain import Plain
from e2e.lib.release import Release
from e2e.lib.target import Target
from e2e.lib.waiting import NotYetError, eventually

NAMESPACE = "pdserving-e2e-bad"
QUOTA_NAMESPACE = "pdserving-e2e-quota"
SECONDS = 240.0


@pytest.fixture(scope="module")
def good(target: Target) -> dict[str, Any]:
    """A small good spec to make mistakes in."""
    return merged(example_spec(target.engine_image), {"proxy": {"replicas": 1}})


@pytest.fixture(scope="module")
def kubectl_bad(target: Target, release: Release) -> Iterator[Kubectl]:
    yield make_namespace(target.kubectl, NAMESPACE)
    for namespace in (NAMESPACE, QUOTA_NAMESPACE):
        target.kubectl.delete("namespace", namespace, "--wait=false")


@pytest.fixture(scope="module")
def troubled(target: Target, kubectl_bad: Kubectl, group: Group, good: dict[str, Any]) -> dict[str, Group]:
    """All groups in trouble at once: most of their trouble is waiting."""
    return {name: _apply(target, kubectl_bad, name, row, good) for name, row in TROUBLES.items()}


def _apply(target: Target, kubectl: Kubectl, name: str, row: Trouble, good: dict[str, Any]) -> Group:
    if row.quota:
        kubectl = make_namespace(target.kubectl, QUOTA_NAMESPACE)
        kubectl.apply(
            {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "e2e"}, "spec": {"hard": row.quota}}
        )
    group = Group(kubectl, name)
    group.apply(merged(good, row.change))
    return group


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_and_makes_nothing(name: str, kubectl_bad: Kubectl, good: dict[str, Any]) -> None:
    row = MISTAKES[name]
    group = Group(kubectl_bad, row.name or name)
    try:
        group.apply(merged(good, row.change))
    except CommandError as error:
        _assert_says(error.stderr, row)
        assert not kubectl_bad.find("pdservinggroup", group.name)
    else:
        condition = group.wait_condition("SpecValid", "False", 30)
        _assert_says(condition["message"], row)
        assert not group.owned(), "objects were made for an invalid spec"
        group.delete()


@pytest.mark.parametrize("name", TROUBLES)
def test_trouble_in_the_cluster_becomes_a_condition(name: str, troubled: dict[str, Group]) -> None:
    row, group = TROUBLES[name], troubled[name]

    def told() -> dict[str, Any]:
        condition = group.condition(row.condition)
        if condition.get("reason") != row.reason:
            raise NotYetError(f"{condition.get('reason')}: {condition.get('message')}")
        _assert_says(condition["message"], row)
        return condition

    eventually(f"{row.condition} with reason {row.reason}", told, within=SECONDS, every=2)
    ready = group.condition("Ready")
    assert ready["status"] == "False"
    group.delete()


@pytest.mark.parametrize("name", ["kv-transfer-config", "wrong-container"])
def test_a_mistake_leaves_a_serving_group_alone(name: str, url: str, group: Group, plain: Plain) -> None:
    row = MISTAKES[name]
    before, spec = _versions(group), group.get()["spec"]
    try:
        group.patch(row.change)
    except CommandError as error:
        _assert_says(error.stderr, row)
    else:
        _assert_says(group.wait_condition("SpecValid", "False", 30)["message"], row)
    assert _versions(group) == before
    question = completion(33, seed=5)
    assert ask(url, question).tokens == plain.tokens(question)
    group.kubectl.run("patch", "pdservinggroup", group.name, "--type=json", "-p", _replace_spec(spec))
    group.wait_ready(60)
    assert _versions(group) == before


def _replace_spec(spec: dict[str, Any]) -> str:
    return json.dumps([{"op": "replace", "path": "/spec", "value": spec}])


def _versions(group: Group) -> dict[str, int]:
    """Generation of every engine set and proxy: it changes with each write to their specs."""
    sets = group.owned("statefulsets,deployments")
    return {each["metadata"]["name"]: each["metadata"]["generation"] for each in sets}


def _assert_says(message: str, row: Mistake | Trouble) -> None:
    missing = [words for words in row.says if not re.search(words, message)]
    assert not missing, f"the message does not say {missing}: {message}"
