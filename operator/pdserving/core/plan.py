"""Decide, from a group's spec and what was observed, what to write: pure and total.

Any spec and any observed state, nonsense included, gives a `Plan`. Bad input becomes a condition and leaves a running
group untouched.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from pdserving.core.actions import ApplyFailure, Defaults, Event, Needs, ObjectRef, Plan
from pdserving.core.observed import Observed

__all__ = ["ApplyFailure", "Defaults", "Event", "Needs", "ObjectRef", "Plan", "needs", "plan", "report"]


def needs(group: Mapping[str, Any], observed: Observed) -> Needs:
    """What else `plan` must know, judged from cached objects and pods alone."""
    raise NotImplementedError


def plan(group: Mapping[str, Any], observed: Observed, now: datetime, defaults: Defaults) -> Plan:
    raise NotImplementedError


def report(
    group: Mapping[str, Any], plan: Plan, failures: Sequence[ApplyFailure], now: datetime
) -> tuple[dict[str, Any], tuple[Event, ...]]:
    """Status and events after acting: the plan's, corrected by what could not be written."""
    raise NotImplementedError
