"""Events about an object: what controllers and the kubelet say that no status holds."""

import re
from collections.abc import Mapping, Sequence

from pdserving.core.observed import Object, Observed
from pdserving.core.template import look_up
from pdserving.core.view import name_of


def find_newest(
    observed: Observed, about: Object, reasons: Sequence[str], *, unlike: "re.Pattern[str] | None" = None
) -> Object | None:
    """The newest such event, of equals the one with the smallest message, so that it does not alternate."""
    matching = [event for event in observed.events if event.get("reason") in reasons and _is_about(event, about)]
    if unlike is not None:
        matching = [event for event in matching if not unlike.search(message_of(event))]
    newest = max(map(seen, matching), default="")
    return min((event for event in matching if seen(event) == newest), key=message_of, default=None)


def message_of(event: Mapping[str, object] | None) -> str:
    return str(event.get("message", "")) if event else ""


def seen(event: Object) -> str:
    """When it was seen last, as the API server writes times."""
    last = look_up(event, ("series", "lastObservedTime"))
    return str(last or event.get("lastTimestamp") or event.get("eventTime") or "")


def _is_about(event: Object, about: Object) -> bool:
    """A StatefulSet gives a new pod the old one's name, so the uid counts where an event has one."""
    return (
        look_up(event, ("involvedObject", "kind")) == about.get("kind", "Pod")
        and look_up(event, ("involvedObject", "name")) == name_of(about)
        and look_up(event, ("involvedObject", "uid")) in (None, look_up(about, ("metadata", "uid")))
    )
