"""The API server's own record of who asked for what, in the place of claims about it."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any

WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


@dataclass(frozen=True, slots=True)
class Request:
    """One finished request, named as RBAC names it."""

    at: datetime
    verb: str
    group: str
    resource: str
    namespace: str
    name: str
    code: int
    authorized: bool = True
    message: str = ""

    @property
    def right(self) -> tuple[str, str, str]:
        return self.group, self.resource, self.verb

    def __str__(self) -> str:
        return f"{self.verb} {self.resource} {self.namespace}/{self.name} -> {self.code} {self.message}".rstrip()


def requests(log: Path, user: str) -> Iterator[Request]:
    """Requests of one user on objects, oldest first, each once: watches when they begin, all others when they end."""
    with log.open() as lines:
        events = (json.loads(line) for line in lines if f'"{user}"' in line)
        yield from (_request(event) for event in events if event["user"]["username"] == user and _counts(event))


def _counts(event: dict[str, Any]) -> bool:
    stage = "ResponseStarted" if event["verb"] == "watch" else "ResponseComplete"
    return event["stage"] == stage and "objectRef" in event


def _request(event: dict[str, Any]) -> Request:
    ref = event["objectRef"]
    resource = "/".join(filter(None, (ref.get("resource", ""), ref.get("subresource"))))
    status = event.get("responseStatus", {})
    return Request(
        at=datetime.fromisoformat(event["requestReceivedTimestamp"]),
        verb=event["verb"],
        group=ref.get("apiGroup", ""),
        resource=resource,
        namespace=ref.get("namespace", ""),
        name=ref.get("name", ""),
        code=status.get("code", 0),
        authorized=event.get("annotations", {}).get("authorization.k8s.io/decision") == "allow",
        message=status.get("message", ""),
    )


def forbidden(seen: Iterable[Request]) -> list[Request]:
    """Requests that were refused for good.

    Not those on a namespace that is ending, and not those that RBAC refused once and allowed before or after: an API
    server that has just started refuses everyone until it has read the roles.
    """
    everything = list(seen)
    allowed = {request.right for request in everything if request.authorized}
    return [
        request
        for request in everything
        if request.code == HTTPStatus.FORBIDDEN
        and "being terminated" not in request.message
        and (request.authorized or request.right not in allowed)
    ]


def writes(seen: Iterable[Request]) -> list[Request]:
    """Writes, without the renewals of the Lease that a standby lives on."""
    return [request for request in seen if request.verb in WRITES and request.resource != "leases"]


def summary(seen: Iterable[Request]) -> str:
    counted = Counter(f"{r.verb} {r.resource}" for r in seen)
    return ", ".join(f"{count}× {what}" for what, count in counted.most_common())
