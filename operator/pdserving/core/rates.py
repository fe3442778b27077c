"""Whether KV cache moves as fast as RDMA can, by the proxies' measures of canaries and the preflight's link rates.

A guard against a path that is off by an order of magnitude, such as TCP beside a 400 Gb/s link, and not a benchmark: a
link that is half as fast as it should be is not found. It never touches Ready: such a group serves, slowly.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pdserving.api import conditions as c
from pdserving.api.labels import DECODE, PREFILL
from pdserving.core.conditions import Verdict
from pdserving.core.failures import is_ready
from pdserving.core.observed import Object
from pdserving.core.preflight import RATE, read_preflight
from pdserving.core.template import look_up
from pdserving.core.view import View, name_of

SHARE = 0.05
"""Of the slowest link, below which no RDMA is: one queue pair of a sound path reaches several times as much."""
LINK = re.compile(r"(\d+(?:\.\d+)?) Gb/sec")
"""As sysfs has it: ``400 Gb/sec (4X NDR)``."""
REMEDY = (
    "look for installTransport in the engines' logs, for retransmissions in the HCAs' counters, and at the path from "
    "GPU to HCA"
)
NO_RATE = (
    "canaries measure an idle engine four times, of vLLM 0.33 or later and a model with 16 MiB of KV cache or more for "
    "257 tokens"
)


@dataclass(frozen=True, slots=True)
class Sender:
    """A prefill engine whose rate and links are known; bytes a second."""

    pod: str
    rate: float
    ceiling: float
    link: float

    @property
    def slow(self) -> bool:
        return self.ceiling < SHARE * self.link


def judge_rate(view: View, lane: str) -> Verdict:
    prefills, decodes = ([pod for pod in view.pods(role, lane) if is_ready(pod)] for role in (PREFILL, DECODE))
    far = min(map(_slowest_link, decodes), default=0.0)
    senders = [sender for pod in prefills if far and (sender := _read_sender(view, pod, far))]
    slow = [sender for sender in senders if sender.slow]
    if slow:
        worst = min(slow, key=lambda sender: sender.ceiling / sender.link)
        text = (
            f"{len(slow)} of {len(prefills)} prefill engines send at a rate that is no RDMA's: {worst.pod} at most "
            f"{_show(worst.ceiling)} over links of {_show(worst.link)}; {REMEDY}"
        )
        return Verdict("True", c.SLOW_TRANSFERS, text)
    count = f"{len(senders)} of {len(prefills)} prefill engines were measured"
    if not prefills or len(senders) < len(prefills):
        return Verdict("Unknown", c.RATE_UNKNOWN, f"{count}: {NO_RATE}")
    least = min(senders, key=lambda sender: sender.rate)
    text = f"{count}: a transfer of {_show(least.rate)} or more over links of {_show(least.link)}"
    return Verdict("False", c.RATE_AS_EXPECTED, text)


def _read_sender(view: View, pod: Object, far: float) -> Sender | None:
    """Of several proxies the one that saw it fastest; a transfer is as fast as the slower of its two ends."""
    near, seen = _slowest_link(pod), list(_sends(view, pod))
    if not near or not seen:
        return None
    best = max(seen, key=lambda sends: sends["ceiling"])
    return Sender(name_of(pod), best["rate"], best["ceiling"], min(near, far))


def _sends(view: View, pod: Object) -> Iterator[Mapping[str, float]]:
    uid = look_up(pod, ("metadata", "uid"))
    for pool in view.observed.pools:
        entries = pool.get(PREFILL)
        for entry in entries if isinstance(entries, list) else ():
            same = isinstance(entry, Mapping) and entry.get("pod") == name_of(pod) and entry.get("uid") in (None, uid)
            if same and _is_complete(sends := entry.get("sends")):
                yield sends


def _is_complete(sends: Any) -> bool:
    return isinstance(sends, Mapping) and all(isinstance(sends.get(key), int | float) for key in ("rate", "ceiling"))


def _slowest_link(pod: Object) -> float:
    """Bytes a second of the slowest link that the preflight saw; 0 if it saw none."""
    found = read_preflight(pod)
    rates = [float(rate) for rate in LINK.findall(found.value(RATE))] if found else []
    return min(rates, default=0.0) * 1e9 / 8


def _show(rate: float) -> str:
    """Two digits: a message that changes with each canary would be a write of status each time."""
    return f"{float(f'{rate / 1e9:.2g}'):g} GB/s"
