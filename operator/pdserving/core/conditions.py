"""Conditions as records and as the list in status, and the events that their changes are worth."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from pdserving.api import conditions as c
from pdserving.core.actions import Event
from pdserving.core.observed import Object
from pdserving.core.template import look_up

MAX_MESSAGE = 1024


@dataclass(frozen=True, slots=True)
class Verdict:
    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str


Verdicts = Mapping[str, Verdict]


def read_conditions(manifest: Object) -> dict[str, Mapping[str, Any]]:
    found = look_up(manifest, ("status", "conditions"))
    entries = found if isinstance(found, Sequence) and not isinstance(found, str) else ()
    return {str(entry.get("type")): entry for entry in entries if isinstance(entry, Mapping)}


def build_conditions(verdicts: Verdicts, manifest: Object, now: datetime) -> list[dict[str, Any]]:
    """In the declared order. A transition time changes only with its status."""
    previous = read_conditions(manifest)
    generation = read_generation(manifest)
    return [
        _build(kind, verdicts[kind], previous.get(kind, {}), generation, now) for kind in c.TYPES if kind in verdicts
    ]


def read_generation(manifest: Object) -> int:
    generation = look_up(manifest, ("metadata", "generation"))
    return generation if isinstance(generation, int) else 0


def _build(kind: str, verdict: Verdict, previous: Mapping[str, Any], generation: int, now: datetime) -> dict[str, Any]:
    same = previous.get("status") == verdict.status
    since = previous.get("lastTransitionTime") if same else None
    return {
        "type": kind,
        "status": verdict.status,
        "observedGeneration": generation,
        "lastTransitionTime": since or now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "reason": verdict.reason,
        "message": _shorten(verdict.message),
    }


def _shorten(message: str) -> str:
    return message if len(message) <= MAX_MESSAGE else f"{message[: MAX_MESSAGE - 1]}…"


def read_verdicts(status: Mapping[str, Any]) -> dict[str, Verdict]:
    """Back from a status that `build_conditions` made."""
    return {
        entry["type"]: Verdict(entry["status"], entry["reason"], entry["message"]) for entry in status["conditions"]
    }


def find_transitions(verdicts: Verdicts, manifest: Object) -> Iterator[Event]:
    """Events for a change of Ready and for each new cause of a stall; the rest stands in the conditions."""
    previous = read_conditions(manifest)
    ready, before = verdicts[c.READY], previous.get(c.READY, {}).get("status")
    if ready.status == "True" and before != "True":
        yield Event("Normal", c.READY, ready.message)
    if ready.status != "True" and before == "True":
        yield Event("Warning", ready.reason, ready.message)
    stalled, last = verdicts[c.STALLED], previous.get(c.STALLED, {})
    if stalled.status == "True" and (last.get("status"), last.get("reason")) != ("True", stalled.reason):
        yield Event("Warning", stalled.reason, stalled.message)
