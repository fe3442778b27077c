"""What the proxies of a group know of its engines: the operator's only view of ranks that have registered."""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final

import aiohttp

from pdserving.api.labels import PROXY, PROXY_ADMIN_PORT, ROLE_LABEL

log = logging.getLogger(__name__)

Manifest = Mapping[str, Any]
DEADLINE: Final = 2.0
"""Seconds: a proxy that needs longer is as good as away, and the group's next look waits for it."""
MAX_BYTES: Final = 4 * 1024 * 1024


class PoolReader:
    def __init__(self, session: aiohttp.ClientSession, *, port: int = PROXY_ADMIN_PORT) -> None:
        self._session = session
        self._port = port

    async def read(self, pods: Iterable[Manifest]) -> tuple[Manifest, ...]:
        """One answer per proxy pod that runs and answers, by the pods' names.

        Ready or not: a proxy is not ready where no engine is usable, and then it alone knows why.
        """
        proxies = sorted((pod for pod in pods if _is_running_proxy(pod)), key=lambda pod: str(pod["metadata"]["name"]))
        answers = await asyncio.gather(*(self._ask(pod) for pod in proxies))
        return tuple(answer for answer in answers if answer is not None)

    async def _ask(self, pod: Manifest) -> Manifest | None:
        address = pod["status"]["podIP"]
        host = f"[{address}]" if ":" in address else address
        try:
            async with asyncio.timeout(DEADLINE), self._session.get(f"http://{host}:{self._port}/debug/pool") as answer:
                if answer.status != 200 or (answer.content_length or 0) > MAX_BYTES:
                    return None
                said = await answer.json()
        except (aiohttp.ClientError, TimeoutError, ValueError, OSError) as error:
            fields = {"pod": pod["metadata"]["name"], "error": repr(error)}
            log.debug("proxy does not tell of its pool", extra={"fields": fields})
            return None
        return said if isinstance(said, dict) else None


def _is_running_proxy(pod: Manifest) -> bool:
    status = pod.get("status") or {}
    return (
        status.get("phase") == "Running"
        and bool(status.get("podIP"))
        and (pod["metadata"].get("labels") or {}).get(ROLE_LABEL) == PROXY
        and not pod["metadata"].get("deletionTimestamp")
    )
