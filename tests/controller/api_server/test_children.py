"""What the operator makes of a group on a real API server, and how it keeps it so."""

import pytest

from e2e.cluster.control_plane import ControlPlane
from e2e.lib import audit
from pdserving.api.labels import MANAGER
from pdserving.kube.kinds import GROUPS, OWNED, find_kind, kind_of
from tests.support.api import Api, Manifest, eventually, make_group
from tests.support.operator_process import OperatorProcess

pytestmark = [pytest.mark.api, pytest.mark.usefixtures("operator")]

SETS = find_kind("apps/v1", "StatefulSet")
SERVICES = find_kind("v1", "Service")
ACCOUNTS = find_kind("v1", "ServiceAccount")
CHILDREN = 14


async def make_children(api: Api, **spec: object) -> list[Manifest]:
    await api.create(make_group(**spec))
    return await all_children(api)


async def all_children(api: Api) -> list[Manifest]:
    async def complete() -> list[Manifest] | None:
        found = await api.owned("llm")
        return found if len(found) == CHILDREN else None

    return await eventually("the group has all its objects", complete, within=120) or []


async def settled(api: Api, operator: OperatorProcess) -> None:
    """Twice in a row the same versions of the group and of its objects."""
    seen: list[set[str]] = []

    async def quiet() -> bool:
        found = [await api.get(GROUPS, "llm"), *await api.owned("llm")]
        seen.append({m["metadata"]["resourceVersion"] for m in found if m})
        return len(seen) > 5 and seen[-1] == seen[-5]

    await eventually("nothing changes any more", quiet)


async def test_group_gets_all_its_objects_by_server_side_apply(api: Api) -> None:
    children = await make_children(api)
    assert {child["kind"] for child in children} == {kind.kind for kind in OWNED}
    for child in children:
        managers = {(field["manager"], field["operation"]) for field in child["metadata"]["managedFields"]}
        assert (MANAGER, "Apply") in managers, child["metadata"]["name"]
        assert child["metadata"]["ownerReferences"][0]["controller"]


async def test_kopf_leaves_no_trace_on_the_group(api: Api, operator: OperatorProcess) -> None:
    await make_children(api)
    await settled(api, operator)
    group = await api.get(GROUPS, "llm")
    assert group
    assert "finalizers" not in group["metadata"]
    assert "annotations" not in group["metadata"]
    assert {field.get("subresource") for field in group["metadata"]["managedFields"]} == {None, "status"}


async def test_settled_group_is_not_written_over_three_resyncs(
    api: Api, operator: OperatorProcess, api_server: ControlPlane
) -> None:
    await make_children(api)
    await settled(api, operator)

    def requests() -> list[audit.Request]:
        return [r for r in audit.requests(api_server.audit_log, "operator") if r.namespace == api.namespace]

    before, looks = len(requests()), operator.metric("pdserving_reconcile_total", result="settled")
    groups = len((await api._client.list(GROUPS, None)).items)

    async def three_looks() -> bool:
        return operator.metric("pdserving_reconcile_total", result="settled") >= looks + 4 * groups

    await eventually("three resyncs of every group", three_looks)
    since = requests()[before:]
    assert audit.writes(since) == []
    assert {str(r).split()[1] for r in since} <= {"events"}, "its objects come from the cache"


async def test_deleted_children_come_back(api: Api) -> None:
    before = await make_children(api)
    for child in before:
        await api.delete(kind_of(child), child["metadata"]["name"])
    gone = {child["metadata"]["uid"] for child in before}

    async def new() -> bool:
        found = await api.owned("llm")
        return len(found) == CHILDREN and not gone & {m["metadata"]["uid"] for m in found}

    await eventually("every object is there anew", new)


async def test_edited_child_is_set_right(api: Api) -> None:
    await make_children(api)
    await api.patch(SERVICES, "llm", {"spec": {"selector": {"app": "other"}}})

    async def right() -> bool:
        service = await api.get(SERVICES, "llm")
        return bool(service) and "app" not in service["spec"]["selector"]

    await eventually("the selector is ours", right)


async def test_replicas_that_the_spec_leaves_out_belong_to_whoever_sets_them(
    api: Api, operator: OperatorProcess
) -> None:
    children = await make_children(api, decode={})
    name = next(
        m["metadata"]["name"] for m in children if m["kind"] == "StatefulSet" and "decode" in str(m["metadata"])
    )
    await api.patch(SETS, name, {"spec": {"replicas": 5}}, "scale")

    async def seen() -> bool:
        group = await api.get(GROUPS, "llm")
        return bool(group) and group["status"]["decode"]["desired"] == 5

    await eventually("the status shows it", seen)
    await settled(api, operator)
    live = await api.get(SETS, name)
    assert live
    assert live["spec"]["replicas"] == 5


async def test_name_that_is_taken_is_told_and_left_alone(api: Api) -> None:
    theirs = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "llm-proxy"}}
    before = await api.create(theirs)
    await api.create(make_group())

    async def told() -> bool:
        group = await api.get(GROUPS, "llm")
        return "ServiceAccount llm-proxy: exists already" in str(group)

    await eventually("a condition says so", told)
    after = await api.get(ACCOUNTS, "llm-proxy")
    assert after
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


@pytest.mark.parametrize("field", ["dnsPolicy", "fieldOfTomorrow"])
async def test_template_that_the_api_server_refuses_creates_nothing(api: Api, field: str) -> None:
    await api.create(make_group(prefill={"template": {"spec": {field: "Sometimes"}}}))

    async def told() -> bool:
        condition = await api.condition("llm", "SpecValid")
        return condition.get("status") == "False" and field in condition["message"]

    await eventually("SpecValid tells why", told)
    assert await api.owned("llm") == []


async def test_spec_that_only_the_operator_can_judge_becomes_a_condition(api: Api) -> None:
    await api.create(make_group(engine={}))

    async def told() -> bool:
        condition = await api.condition("llm", "SpecValid")
        return condition.get("status") == "False" and "spec.engine.image" in condition["message"]

    await eventually("SpecValid tells why", told)
    assert await api.owned("llm") == []


async def test_deleted_group_takes_its_objects_along(api: Api) -> None:
    await make_children(api)
    await api.delete(GROUPS, "llm")

    async def gone() -> bool:
        return not await api.owned("llm")

    await eventually("all objects are gone", gone)


async def test_operator_asks_for_nothing_that_its_rights_forbid(
    api: Api, operator: OperatorProcess, api_server: ControlPlane
) -> None:
    await make_children(api)
    await settled(api, operator)
    assert [str(r) for r in audit.requests(api_server.audit_log, "operator") if r.code == 403] == []
