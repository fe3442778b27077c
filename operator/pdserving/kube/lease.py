"""One active operator: work happens only while we hold a Lease, and losing it ends the process.

Like client-go: a holder that did not renew for `duration` seconds is dead, judged by our own clock from the moment at
which we last saw the lease change, so that clocks need not agree. A holder gives up by itself after `renew_deadline`,
which is shorter. `kubernetes.aio.leaderelection` (37.0.2) is not used: its requests have no deadline, so a hanging one
outlives the lease; it goes by the wall clock; and it releases nothing at the end, so that every update of the operator
would pause it for a whole duration.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Protocol

from pdserving.kube.client import Manifest
from pdserving.kube.errors import ConflictError, KubeError, NotFoundError
from pdserving.kube.kinds import LEASES, Kind

log = logging.getLogger(__name__)


class Requests(Protocol):
    async def request(self, verb: str, kind: Kind, path: str, body: Manifest | None = None) -> Manifest: ...


@dataclass(frozen=True, slots=True)
class Timing:
    """In seconds. Three times client-go's defaults: nothing that serves depends on a quick change of the operator, and
    an API server that restarts or is overloaded must not make operators restart on top of it.
    """

    duration: float = 45.0
    renew_deadline: float = 30.0
    retry: float = 3.0
    attempt: float = 5.0
    """For one request: an API server that is just starting accepts connections and lets them hang."""


DEFAULT_TIMING: Final = Timing()


class LeaseLostError(Exception):
    """Another may be active now."""


class Lease:
    def __init__(
        self,
        client: Requests,
        *,
        namespace: str,
        name: str,
        identity: str,
        clock: Callable[[], float],
        timing: Timing = DEFAULT_TIMING,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._clock = clock
        self._timing = timing
        self._seen: tuple[object, float] = (None, float("-inf"))

    async def acquire(self) -> None:
        """Wait until it is ours."""
        waiting_for = None
        while (holder := await self._try()) != self._identity:
            if holder is not None and holder != waiting_for:
                log.info("standing by", extra={"fields": {"lease": self._name, "holder": holder}})
            waiting_for = holder
            await asyncio.sleep(self._timing.retry)
        log.info("acquired the lease", extra={"fields": {"lease": self._name, "identity": self._identity}})

    async def hold(self) -> None:
        """Renew it for ever; raises `LeaseLostError` when another has it or it could not be renewed in time."""
        renewed = self._clock()
        while self._clock() - renewed < self._timing.renew_deadline:
            await asyncio.sleep(self._timing.retry)
            asked = self._clock()
            holder = await self._try()
            if holder == self._identity:
                renewed = asked
            elif holder is not None:
                raise LeaseLostError(f"lease {self._name} is held by {holder}")
        raise LeaseLostError(f"lease {self._name} could not be renewed for {self._timing.renew_deadline:.0f} s")

    async def release(self) -> None:
        """Let the next one start at once."""
        try:
            lease = await self._get()
            if lease["spec"].get("holderIdentity") == self._identity:
                await self._put(lease, {"holderIdentity": "", "leaseDurationSeconds": 1})
        except KubeError as error:
            log.warning("did not release the lease", extra={"fields": {"lease": self._name, "error": error.message}})

    async def _try(self) -> str | None:
        """Acquire or renew; the holder as far as we know, None if the API server could not be asked."""
        try:
            async with asyncio.timeout(self._timing.attempt):
                return await self._acquire_or_renew()
        except ConflictError:
            return None  # somebody was faster: the next look tells who
        except TimeoutError:
            said = f"no answer within {self._timing.attempt:.0f} s"
        except KubeError as error:
            said = error.message
        log.warning("no access to the lease", extra={"fields": {"lease": self._name, "error": said}})
        return None

    async def _acquire_or_renew(self) -> str:
        try:
            lease = await self._get()
        except NotFoundError:
            return await self._create()
        spec = lease.get("spec") or {}
        if spec.get("holderIdentity") != self._identity and not self._has_expired(spec):
            return str(spec["holderIdentity"])
        taken = spec.get("holderIdentity") != self._identity
        transitions = int(spec.get("leaseTransitions") or 0) + taken
        await self._put(lease, self._claim(transitions) | ({} if taken else {"acquireTime": spec.get("acquireTime")}))
        return self._identity

    def _has_expired(self, spec: Mapping[str, Any]) -> bool:
        if not spec.get("holderIdentity"):
            return True
        state = (spec["holderIdentity"], spec.get("renewTime"))
        if state != self._seen[0]:
            self._seen = (state, self._clock())
        duration = float(spec.get("leaseDurationSeconds") or self._timing.duration)
        return self._clock() - self._seen[1] >= duration

    def _claim(self, transitions: int) -> Manifest:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": int(self._timing.duration),
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": transitions,
        }

    async def _get(self) -> Manifest:
        return await self._client.request("get", LEASES, LEASES.path(self._namespace, self._name))

    async def _create(self) -> str:
        metadata = {"name": self._name, "namespace": self._namespace}
        body = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata, "spec": self._claim(0)}
        await self._client.request("create", LEASES, LEASES.path(self._namespace), body)
        return self._identity

    async def _put(self, lease: Manifest, changes: Mapping[str, Any]) -> None:
        """With the resource version that was read, so that only one of two claims succeeds."""
        body = {**lease, "spec": {**(lease.get("spec") or {}), **changes}}
        await self._client.request("update", LEASES, LEASES.path(self._namespace, self._name), body)


async def lead(lease: Lease, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run `work` while we hold the lease: cancelled when it is lost (`LeaseLostError`), else the lease is given away.

    The renewing task is older than anything that `work` starts.
    """
    await lease.acquire()
    holding = asyncio.create_task(lease.hold(), name="lease")
    working = asyncio.create_task(work(), name="work")
    try:
        await asyncio.wait((holding, working), return_when=asyncio.FIRST_COMPLETED)
    finally:
        lost = holding.done()
        for task in (working, holding):
            task.cancel()
            await asyncio.wait((task,))
        if not lost:
            await lease.release()
    await (holding if lost else working)
