"""What the operator costs: requests, memory and CPU, with many groups on a real API server.

    python -m bench.operator [--groups 300]

An API server without nodes: pods are created and stay pending, unless this says that they are ready, as a kubelet
would. Figures of the API server come from its audit log, those of the process from /proc.
"""

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from e2e.cluster.control_plane import ControlPlane
from e2e.lib import audit
from pdserving.kube.client import KubeClient
from pdserving.kube.errors import UnreachableError
from pdserving.kube.kinds import PODS, find_kind
from tests.support.api import READY, Api, eventually, make_group
from tests.support.operator_process import OperatorProcess
from tests.support.rights import grant

T = TypeVar("T")
CRD = Path(__file__).parents[1] / "crds/pdserving.dev_pdservinggroups.yaml"
NAMESPACE = "bench"
USER = "operator"
CHILDREN = 14
LAST = find_kind("policy/v1", "PodDisruptionBudget")
"""Three of each group, applied last."""
WINDOW = 45.0
"""Seconds of watching a steady state: each group is looked at about three times."""


@dataclass(frozen=True, slots=True)
class Usage:
    rss: float
    """MiB."""
    peak: float
    cpu: float
    """Seconds."""


def read_usage(pid: int) -> Usage:
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return Usage(
        rss=int(status["VmRSS"].split()[0]) / 1024,
        peak=int(status["VmHWM"].split()[0]) / 1024,
        cpu=(int(ticks[11]) + int(ticks[12])) / os.sysconf("SC_CLK_TCK"),
    )


class Bench:
    def __init__(self, plane: ControlPlane, operator: OperatorProcess, api: Api, groups: int) -> None:
        self._plane = plane
        self._operator = operator
        self._api = api
        self._names = [f"g{number:04}" for number in range(groups)]
        self.rows: list[tuple[str, str]] = []

    async def run(self) -> None:
        await asyncio.sleep(10)
        idle = read_usage(self._operator.pid)
        self._show("memory without groups", f"{idle.rss:.0f} MiB")
        await self._create(idle)
        self._count_requests()
        await self._watch("pods pending", audit_from=await self._quiet())
        await self._make_ready()
        await self._watch("pods ready", audit_from=await self._quiet())
        await self._restart()

    async def _create(self, idle: Usage) -> None:
        started = time.monotonic()
        await self._each(self._names, lambda name: self._api.create(make_group(name)))
        await eventually("every group has all its objects", self._complete, within=1800)
        took, used = time.monotonic() - started, read_usage(self._operator.pid)
        self._show("from nothing to all objects", f"{took:.0f} s for {len(self._names)} groups")
        self._show("memory with all objects", f"{used.rss:.0f} MiB, peak {used.peak:.0f} MiB")
        self._show("CPU for it", f"{(used.cpu - idle.cpu) / len(self._names) * 1000:.0f} ms a group")

    async def _complete(self) -> bool:
        return len(await _insist(lambda: self._api.find(LAST))) == 3 * len(self._names)

    def _count_requests(self) -> None:
        """Requests that name a group's objects, up to the creation of the last of them."""
        needed: dict[str, int] = {}
        seen, created = Counter[str](), Counter[str]()
        for request in self._requests():
            group = request.name[:5]
            if request.namespace == NAMESPACE and group in self._names and group not in needed:
                seen[group] += 1
                created[group] += request.code == 201
                if created[group] == CHILDREN:
                    needed[group] = seen[group]
        counts = list(needed.values())
        self._show("requests a group, to all objects", f"median {statistics.median(counts):.0f}, most {max(counts)}")
        self._show("all requests since the start", audit.summary(self._requests()))

    async def _watch(self, what: str, audit_from: int) -> None:
        before, looks = read_usage(self._operator.pid), self._looks()
        await asyncio.sleep(WINDOW)
        after, looked = read_usage(self._operator.pid), self._looks() - looks
        since = [r for r in self._requests()[audit_from:] if r.resource != "leases"]
        self._show(f"{what}: memory", f"{after.rss:.0f} MiB, peak {after.peak:.0f} MiB")
        self._show(
            f"{what}: CPU of one look", f"{(after.cpu - before.cpu) / max(looked, 1) * 1000:.1f} ms ({looked:.0f})"
        )
        self._show(f"{what}: writes in {WINDOW:.0f} s", str(len(audit.writes(since))))
        self._show(f"{what}: other requests", audit.summary(since) or "none")

    async def _make_ready(self) -> None:
        """In the kubelet's place."""
        names = [pod["metadata"]["name"] for pod in await _insist(lambda: self._api.find(PODS))]
        await self._each(names, lambda name: self._api.patch(PODS, name, READY, "status"))

    async def _restart(self) -> None:
        self._operator.stop()
        start = len(self._requests())
        started = time.monotonic()
        self._operator.start()
        took = time.monotonic() - started
        await asyncio.sleep(20)
        used = read_usage(self._operator.pid)
        writes = audit.writes(self._requests()[start:])
        self._show("restart", f"ready after {took:.1f} s, {used.cpu:.1f} s CPU, {len(writes)} writes")
        self._show("memory after the restart", f"{used.rss:.0f} MiB, peak {used.peak:.0f} MiB")

    async def _quiet(self) -> int:
        """Wait until nothing was written for ten seconds; the number of requests so far."""
        writes, since = -1, time.monotonic()
        while time.monotonic() - since < 10:
            now = len(audit.writes(self._requests()))
            if now != writes:
                writes, since = now, time.monotonic()
            await asyncio.sleep(1)
        return len(self._requests())

    async def _each(self, names: list[str], request: Callable[[str], Awaitable[object]], at_once: int = 8) -> None:
        limit = asyncio.Semaphore(at_once)

        async def one(name: str) -> None:
            async with limit:
                await _insist(lambda: request(name))

        await asyncio.gather(*map(one, names))

    def _requests(self) -> list[audit.Request]:
        return list(audit.requests(self._plane.audit_log, USER))

    def _looks(self) -> float:
        return self._operator.metric("pdserving_reconcile_total")

    def _show(self, what: str, figure: str) -> None:
        self.rows.append((what, figure))
        print(f"{what:<36} {figure}", flush=True)


async def _insist(request: Callable[[], Awaitable[T]]) -> T:
    """A loaded machine's API server may need longer than a request's deadline."""
    while True:
        try:
            return await request()
        except UnreachableError:
            await asyncio.sleep(1)


async def measure(groups: int) -> None:
    with ControlPlane() as plane, tempfile.TemporaryDirectory() as folder:
        plane.kubectl("apply", "--server-side", "--validate=false", "-f", CRD)
        plane.kubectl("wait", "--for=condition=Established", "crd/pdservinggroups.pdserving.dev", "--timeout=60s")
        grant(plane, USER)
        os.environ["KUBECONFIG"] = str(plane.kubeconfig)
        log = Path(folder) / "operator.log"
        with OperatorProcess(plane.credentials(USER), log, "--lease-name=bench") as operator:
            async with KubeClient.connect() as client:
                api = Api(client, NAMESPACE)
                await api.create_namespace()
                await Bench(plane, operator, api, groups).run()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=300)
    asyncio.run(measure(parser.parse_args().groups))


if __name__ == "__main__":
    main()
