"""Whether KV cache moves, as the proxies conclude it from the decode engines' own counters of real traffic.

It speaks where there are no canaries: with verification Off, and while engines are too busy for one.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from pdserving.api import conditions as c
from pdserving.api.labels import DECODE
from pdserving.core.conditions import Verdict
from pdserving.core.failures import is_ready
from pdserving.core.observed import Object
from pdserving.core.template import look_up
from pdserving.core.view import View, name_of

MOVING, NOT_MOVING = "moving", "not_moving"
REMEDY = (
    "see the prefill engines' logs for failed transfers, and check ports, GIDs and NetworkPolicies between the two; "
    "answers stay right meanwhile, and slower"
)


def judge_transfer(view: View, lane: str) -> Verdict:
    """One proxy that sees an engine compute what it should fetch outweighs those that see it fetch from elsewhere."""
    pods = [pod for pod in view.pods(DECODE, lane) if is_ready(pod)]
    states = {name_of(pod): list(_states(view, pod)) for pod in pods}
    stuck = {name: flow for name, flows in states.items() for flow in flows if flow.get("state") == NOT_MOVING}
    if stuck:
        name, flow = next(iter(stuck.items()))
        text = (
            f"{len(stuck)} of {len(pods)} decode engines compute prompts that they should fetch: {name} computed "
            f"{flow.get('computed')} tokens of {flow.get('asked')} and fetched none; {REMEDY}"
        )
        return Verdict("False", c.NO_KV_MOVED, text)
    moving = [name for name, flows in states.items() if any(flow.get("state") == MOVING for flow in flows)]
    text = f"{len(moving)} of {len(pods)} decode engines have fetched KV cache from prefill"
    if len(moving) == len(pods) and pods:
        return Verdict("True", c.KV_MOVES, text)
    return Verdict("Unknown", c.NO_TRANSFER_SEEN, f"{text}; the others had no prompt to fetch yet" if pods else text)


def _states(view: View, pod: Object) -> Iterator[Mapping[str, Any]]:
    uid = look_up(pod, ("metadata", "uid"))
    for pool in view.observed.pools:
        entries = pool.get(DECODE)
        for entry in entries if isinstance(entries, list) else ():
            same = isinstance(entry, Mapping) and entry.get("pod") == name_of(pod) and entry.get("uid") in (None, uid)
            if same and isinstance(flow := entry.get("kv"), Mapping):
                yield flow
