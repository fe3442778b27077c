"""Engines of a lane follow one another, no rule locks a group out, and no template undoes a rule unseen."""

from collections.abc import Mapping
from typing import Any

import pytest

from pdserving.core.observed import Observed
from pdserving.core.plan import plan
from pdserving.core.resources.topology import PREFERRED, REQUIRED
from tests.core.samples import DEFAULTS, NOW, make_group

TOGETHER = [{"key": "fabric", "mode": "Required"}, {"key": "leaf"}]
SPREAD = [{"key": "kubernetes.io/hostname", "mode": "Spread"}]


def render(*rules: dict[str, str], image: str = "vllm:1", **roles: Any) -> dict[str, dict[str, Any]]:
    """Pod templates by component."""
    group = make_group(transfer={"protocol": "tcp", "topology": list(rules)}, engine={"image": image}, **roles)
    step = plan(group, Observed(), NOW, DEFAULTS)
    workloads = [found["spec"]["template"] for found in step.apply if "template" in found.get("spec", ())]
    return {found["metadata"]["labels"]["pdserving.dev/role"]: found for found in workloads}


def refusal(template: dict[str, Any], *rules: dict[str, str]) -> str:
    transfer = {"protocol": "tcp", "topology": list(rules)}
    group = make_group(transfer=transfer, decode={"template": {"spec": template}})
    conditions = {found["type"]: found for found in plan(group, Observed(), NOW, DEFAULTS).status["conditions"]}
    return str(conditions["SpecValid"]["message"])


def terms(template: dict[str, Any]) -> list[dict[str, Any]]:
    affinity = template["spec"]["affinity"]["podAffinity"]
    return [*affinity[REQUIRED], *(term["podAffinityTerm"] for term in affinity[PREFERRED])]


def matches(term: Mapping[str, Any], template: Mapping[str, Any]) -> bool:
    """Whether pods of this template are chosen by the term, as the scheduler reads it."""
    found, selector = template["metadata"]["labels"], term["labelSelector"]
    expressions = selector.get("matchExpressions", ())
    assert {expression["operator"] for expression in expressions} <= {"In"}
    return selector["matchLabels"].items() <= found.items() and all(
        found.get(expression["key"]) in expression["values"] for expression in expressions
    )


@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_a_term_matches_its_own_pods_so_that_the_first_engine_finds_a_place(role: str) -> None:
    rendered = render(*TOGETHER)
    for term in terms(rendered[role]):
        assert matches(term, rendered[role])
        assert matches(term, rendered["decode" if role == "prefill" else "prefill"])
        assert not matches(term, rendered["proxy"])


def test_another_lane_is_free_to_go_elsewhere() -> None:
    old, new = render(*TOGETHER), render(*TOGETHER, image="vllm:2")
    assert not any(matches(term, old["prefill"]) for term in terms(new["prefill"]))


def test_each_rule_is_for_its_key() -> None:
    affinity = render(*TOGETHER)["decode"]["spec"]["affinity"]["podAffinity"]
    assert [term["topologyKey"] for term in affinity[REQUIRED]] == ["fabric"]
    assert [(term["weight"], term["podAffinityTerm"]["topologyKey"]) for term in affinity[PREFERRED]] == [(100, "leaf")]


def test_spread_counts_the_engines_of_one_role_and_never_holds_one_up() -> None:
    rendered = render(*SPREAD)
    (constraint,) = rendered["decode"]["spec"]["topologySpreadConstraints"]
    assert matches(constraint, rendered["decode"])
    assert not matches(constraint, rendered["prefill"])
    assert constraint["whenUnsatisfiable"] == "ScheduleAnyway"
    assert "affinity" not in rendered["decode"]["spec"]


def test_without_rules_nothing_is_said() -> None:
    assert not {"affinity", "topologySpreadConstraints"} & render()["prefill"]["spec"].keys()


@pytest.mark.parametrize("name", [REQUIRED, PREFERRED])
def test_a_template_cannot_replace_a_term_unseen(name: str) -> None:
    template = {"affinity": {"podAffinity": {name: []}}}
    text = refusal(template, *TOGETHER)
    assert text.startswith(f"spec.decode.template.spec.affinity.podAffinity.{name}: owned by the operator; ")
    assert "spec.transfer.topology" in text
    assert refusal(template, *SPREAD) == "the spec is valid"


def test_a_template_cannot_replace_a_spread_unseen() -> None:
    def constrain(key: str) -> dict[str, Any]:
        return {"topologySpreadConstraints": [{"topologyKey": key, "maxSkew": 5}]}

    assert "remove it, or its key from spec.transfer.topology" in refusal(constrain("kubernetes.io/hostname"), *SPREAD)
    assert refusal(constrain("zone"), *SPREAD) == "the spec is valid"


def test_a_node_affinity_stands_beside() -> None:
    decode = {"template": {"spec": {"affinity": {"nodeAffinity": {"x": 1}}}}}
    affinity = render(*TOGETHER, decode=decode)["decode"]["spec"]["affinity"]
    assert affinity.keys() == {"podAffinity", "nodeAffinity"}
