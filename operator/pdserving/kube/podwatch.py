"""Pods of one namespace, kept current by list and watch; read-only, for the proxy.

The whole set is published after each change. A list replaces what was known, so a pod that vanished while no watch
was open disappears with the next list: the one mistake that a proxy must not make is to keep a dead engine.
"""

import asyncio
import contextlib
import json
import logging
import random
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from typing import Any, Final
from urllib.parse import urlencode

import aiohttp
from kubernetes.aio.client.api_client import ApiClient

from pdserving.kube.auth import load_configuration
from pdserving.kube.kinds import PODS

Pod = Mapping[str, Any]
Publish = Callable[[Collection[Pod]], None]

WATCH_SECONDS: Final = 240
"""The server ends a watch after so long; a silent connection is given up a little later."""
SILENCE_SECONDS: Final = WATCH_SECONDS + 30
LIST_SECONDS: Final = 30
BACKOFF_FIRST, BACKOFF_LAST = 0.2, 15.0

logger = logging.getLogger(__name__)


class ExpiredError(Exception):
    """The server no longer knows the resource version: list again."""


async def watch_pods(namespace: str, selector: str, publish: Publish) -> None:
    """Never returns; publishes the full set of pods after each list and each change."""
    watch = PodWatch(namespace, selector, publish)
    backoff = BACKOFF_FIRST
    async with ApiClient(await load_configuration()) as api:
        while True:
            try:
                await watch.list(api)
                backoff = BACKOFF_FIRST
                await watch.follow(api)
            except ExpiredError:
                continue
            except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
                delay = backoff * (0.5 + random.random())  # noqa: S311 - spreads reconnects
                fields = {"error": f"{type(error).__name__}: {error}"[:300], "retry_in": round(delay, 1)}
                logger.warning("pods can't be watched; going on with those known", extra={"fields": fields})
                await asyncio.sleep(delay)
                backoff = min(backoff * 2, BACKOFF_LAST)


class PodWatch:
    """What is known, and the two requests that keep it true."""

    def __init__(self, namespace: str, selector: str, publish: Publish) -> None:
        self._namespace, self._selector, self._publish = namespace, selector, publish
        self._pods: dict[str, Pod] = {}
        self._version = ""

    async def list(self, api: Any) -> None:
        response = await self._get(api, LIST_SECONDS)
        async with contextlib.aclosing(_Closing(response)):
            answer = json.loads(await response.read())
        self._pods = {pod["metadata"]["name"]: pod for pod in answer["items"]}
        self._version = answer["metadata"]["resourceVersion"]
        self._publish(self._pods.values())

    async def follow(self, api: Any) -> None:
        """Watch after watch, until one fails."""
        while True:
            query = {"watch": "true", "resourceVersion": self._version, "allowWatchBookmarks": "true"}
            response = await self._get(api, SILENCE_SECONDS, timeoutSeconds=str(WATCH_SECONDS), **query)
            async with contextlib.aclosing(_Closing(response)):
                async for line in _lines(response.content):
                    self.apply(json.loads(line))

    def apply(self, event: Mapping[str, Any]) -> None:
        kind, item = event["type"], event["object"]
        if kind == "ERROR":
            if item.get("code") == 410:
                raise ExpiredError
            raise ValueError(f"watch ended: {item.get('message', item)}")
        metadata = item["metadata"]
        self._version = metadata["resourceVersion"]
        if kind == "BOOKMARK":
            return
        if kind == "DELETED":
            self._pods.pop(metadata["name"], None)
        else:
            self._pods[metadata["name"]] = item
        self._publish(self._pods.values())

    async def _get(self, api: Any, seconds: float, **query: str) -> aiohttp.ClientResponse:
        """An answer whose body is not read yet: the generated methods read it to its end, and a watch has none."""
        path, headers = PODS.path(self._namespace), {"Accept": "application/json"}
        await api.update_params_for_auth(headers, [], ["BearerToken"], path, "GET", None)
        url = f"{api.configuration.host}{path}?{urlencode({'labelSelector': self._selector, **query})}"
        answer: aiohttp.ClientResponse = (
            await api.rest_client.request("GET", url, headers, None, _request_timeout=seconds)
        ).response
        if answer.status == 410:
            answer.close()
            raise ExpiredError
        if answer.status != 200:
            text = (await answer.text())[:300]
            raise ValueError(f"status {answer.status}: {text}")
        return answer


class _Closing:
    def __init__(self, response: Any) -> None:
        self._response = response

    async def aclose(self) -> None:
        self._response.close()


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Lines of any length; aiohttp's own reader stops at 64 KiB, and a pod may be longer."""
    rest = b""
    async for part in content.iter_any():
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            if line:
                yield line
