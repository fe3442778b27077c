"""A change that breaks KV compatibility: the new pair comes up beside the old one, which goes when it is replaced."""

import pytest

from e2e.cluster.control_plane import ControlPlane
from e2e.lib import audit
from pdserving.kube.kinds import GROUPS, find_kind
from tests.controller.api_server.test_children import make_children
from tests.support.api import Api, eventually

pytestmark = [pytest.mark.api, pytest.mark.usefixtures("operator")]

SETS = find_kind("apps/v1", "StatefulSet")


async def lanes(api: Api) -> set[str]:
    return {live["metadata"]["labels"]["pdserving.dev/lane"] for live in await api.find(SETS)}


async def test_old_lane_serves_until_the_new_one_does_and_is_then_deleted(api: Api, api_server: ControlPlane) -> None:
    await make_children(api)
    (old,) = await lanes(api)

    async def serving(lane: str) -> bool:
        await api.make_pods_ready()
        group = await api.get(GROUPS, "llm")
        return bool(group) and group["status"].get("lane") == lane

    await eventually("the first lane serves", lambda: serving(old))
    await api.patch(GROUPS, "llm", {"spec": {"engine": {"image": "registry.example/vllm:2"}}})

    async def beside() -> str | None:
        return next(iter(await lanes(api) - {old}), None)

    new = await eventually("another lane is there", beside)
    assert new
    assert old in await lanes(api), "nothing of the new one is ready"
    await eventually("the second lane serves", lambda: serving(new))

    async def replaced() -> bool:
        return await lanes(api) == {new}

    await eventually("the first lane is deleted", replaced)
    seen = audit.requests(api_server.audit_log, "operator")
    deleted = {r.name for r in seen if r.verb == "delete" and r.namespace == api.namespace}
    assert deleted == {f"llm-prefill-{old}", f"llm-decode-{old}"}
