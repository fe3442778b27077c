"""What happens while the operator, its lease or the API server is away."""

import os
import signal
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from e2e.cluster.control_plane import ControlPlane
from e2e.lib import audit
from pdserving.kube.kinds import GROUPS, LEASES
from tests.controller.api_server.test_children import SERVICES, all_children, make_children
from tests.support import refused_sockets
from tests.support.api import Api, eventually, make_group
from tests.support.operator_process import OperatorProcess
from tests.support.rights import grant

pytestmark = pytest.mark.api


@pytest.fixture
def lone(api_server: ControlPlane, api: Api, tmp_path: Path) -> Iterator[OperatorProcess]:
    """An operator of the test's namespace alone, with rights there and nowhere else."""
    user = f"operator-of-{api.namespace}"
    grant(api_server, user, (api.namespace,))
    arguments = (f"--namespace={api.namespace}", f"--lease-name={api.namespace}", "--resync=2")
    process = OperatorProcess(api_server.credentials(user), tmp_path / "operator.log", *arguments, name="first")
    with process:
        process.lead()
        yield process


@pytest.fixture
def second(lone: OperatorProcess, tmp_path: Path) -> Iterator[OperatorProcess]:
    """Another replica of it, on standby."""
    process = OperatorProcess(lone._kubeconfig, tmp_path / "second.log", *lone._arguments, name="second")
    with process:
        yield process


async def restart(api_server: ControlPlane, api: Api) -> None:
    with refused_sockets.tolerated():
        api_server.restart_apiserver()
    await eventually("the API server answers", api.answers)


async def test_operator_of_one_namespace_needs_rights_in_no_other(
    api: Api, lone: OperatorProcess, api_server: ControlPlane
) -> None:
    await make_children(api)
    seen = list(audit.requests(api_server.audit_log, f"operator-of-{api.namespace}"))
    assert {request.namespace for request in seen} == {api.namespace, "default"}
    assert {request.resource for request in seen if request.namespace == "default"} == {"leases"}
    assert [str(request) for request in seen if request.code == 403] == []


async def test_group_deleted_while_the_operator_is_down_is_not_held_up_nor_brought_back(
    api: Api, lone: OperatorProcess, api_server: ControlPlane
) -> None:
    await make_children(api)
    assert lone.stop() == 0
    await api.delete(GROUPS, "llm")

    async def gone() -> bool:
        return not await api.owned("llm") and not await api.get(GROUPS, "llm")

    await eventually("the group and its objects are gone", gone)
    lone.start()
    seen = audit.requests(api_server.audit_log, f"operator-of-{api.namespace}")
    assert audit.writes(seen)[-1].at < (await _started(api)), "nothing was written since"
    assert await api.owned("llm") == []


async def _started(api: Api) -> datetime:
    lease = await api._client.request("get", LEASES, LEASES.path("default", api.namespace))
    return datetime.fromisoformat(lease["spec"]["acquireTime"])


async def test_children_deleted_while_the_operator_is_down_come_back(api: Api, lone: OperatorProcess) -> None:
    await make_children(api)
    lone.stop(signal.SIGKILL)
    await api.delete(SERVICES, "llm")
    lone.start(until="/healthz")
    await all_children(api)


async def test_restart_of_the_api_server_is_survived(api: Api, lone: OperatorProcess, api_server: ControlPlane) -> None:
    pid = lone.pid
    await restart(api_server, api)
    await api.create(make_group())
    await all_children(api)
    assert lone.pid == pid
    assert lone.get("/healthz")[0] == 200


async def test_what_vanished_behind_broken_watches_comes_back_without_a_resync(
    api: Api, api_server: ControlPlane, tmp_path: Path
) -> None:
    """kopf lists anew and says nothing of what is gone: the comparison that follows finds it."""
    user = f"deaf-in-{api.namespace}"
    grant(api_server, user, (api.namespace,))
    arguments = (f"--namespace={api.namespace}", f"--lease-name={api.namespace}", "--resync=86400")
    with OperatorProcess(api_server.credentials(user), tmp_path / "deaf.log", *arguments) as operator:
        operator.lead()
        await make_children(api)
        listed = operator.metric("pdserving_watch_events_total", type="LISTED")
        os.kill(operator.pid, signal.SIGSTOP)
        await restart(api_server, api)  # its watches are gone
        await api.delete(SERVICES, "llm")
        await restart(api_server, api)  # and so is the API server's memory of events since
        os.kill(operator.pid, signal.SIGCONT)
        await all_children(api)
        assert operator.metric("pdserving_watch_events_total", type="LISTED") > listed
        assert operator.metric("pdserving_watch_events_total", type="DELETED", kind="Service") == 0


async def test_standby_is_ready_and_takes_over_at_once_from_one_that_stops(
    api: Api, lone: OperatorProcess, second: OperatorProcess
) -> None:
    assert second.get("/readyz")[0] == 200
    assert (lone.metric("pdserving_leader"), second.metric("pdserving_leader")) == (1, 0)
    await make_children(api)
    assert lone.stop() == 0

    async def leads() -> bool:
        return second.metric("pdserving_leader") == 1

    await eventually("the standby leads", leads, within=15)


async def test_standby_takes_over_from_one_that_is_killed(
    api: Api, lone: OperatorProcess, second: OperatorProcess
) -> None:
    lone.stop(signal.SIGKILL)

    async def leads() -> bool:
        return second.metric("pdserving_leader") == 1

    await eventually("the standby leads after the lease's duration", leads, within=60)
    await api.create(make_group())
    await all_children(api)


async def test_operator_that_loses_its_lease_stops_with_an_error(api: Api, lone: OperatorProcess) -> None:
    path = LEASES.path("default", api.namespace)
    stolen = {"spec": {"holderIdentity": "another", "leaseDurationSeconds": 3600}}
    await api._client.request("patch", LEASES, path, stolen)
    assert lone.wait(within=60) == 1
    assert "is held by another" in lone.log
