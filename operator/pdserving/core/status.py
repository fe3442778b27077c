"""The status of a group: counts, lanes and conditions."""

from datetime import datetime
from typing import Any

from pdserving.core import names
from pdserving.core.conditions import build_conditions, read_generation
from pdserving.core.observed import Object
from pdserving.core.pairs import build_pairs
from pdserving.core.situation import Situation
from pdserving.core.template import look_up
from pdserving.core.verdicts import judge
from pdserving.core.view import Scale


def build_status(situation: Situation, manifest: Object, now: datetime) -> dict[str, Any]:
    serving = situation.serving
    status: dict[str, Any] = {
        "observedGeneration": read_generation(manifest),
        "conditions": build_conditions(judge(situation), manifest, now),
        "prefill": _counts(situation.scale("prefill")),
        "decode": _counts(situation.scale("decode")),
        "proxy": _counts(situation.proxies),
        "lane": serving.name if serving else None,
        "targetLane": situation.target if situation.target != (serving.name if serving else None) else None,
        "endpoint": _endpoint(situation, manifest),
        "pairs": (build_pairs(situation.view, situation.shown.name) or None) if situation.canaries else None,
    }
    return {key: value for key, value in status.items() if value is not None}


def _endpoint(situation: Situation, manifest: Object) -> Any:
    """With an invalid spec the last valid one's, if it still serves."""
    group = situation.group
    if group is None:
        return look_up(manifest, ("status", "endpoint")) if situation.serving else None
    return names.endpoint(group.name, group.namespace, group.scheme, group.service_port)


def _counts(scale: Scale) -> dict[str, Any]:
    return {
        "ready": scale.ready,
        "desired": scale.desired,
        "updated": scale.updated,
        "summary": f"{scale.ready}/{scale.desired}",
    }
