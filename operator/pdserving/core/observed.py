"""What was seen of a group in the cluster, as the API server and the proxies gave it.

The core never fetches: the controller fills this record and asks `needs` what else it must look at.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Observed:
    objects: tuple[Object, ...] = ()
    """Every live object that the group owns, each with its apiVersion and kind."""
    pods: tuple[Object, ...] = ()
    """Pods that carry the group's label."""
    events: tuple[Object, ...] = ()
    """core/v1 Warning events on those objects and pods; fetched only while the group is not settled."""
    logs: Mapping[str, str] = field(default_factory=dict)
    """Pod name -> last lines of the engine container's previous log; fetched only for crashed engines."""
    pools: tuple[Object, ...] = ()
    """One ``/debug/pool`` answer per reachable proxy pod."""
