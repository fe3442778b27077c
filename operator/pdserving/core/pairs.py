"""Whether canaries of the proxies prove that KV cache moves between engines and gives right tokens.

One failed pair of ready engines makes it False. It is True when each ready engine is in at least one proven pair: all
pairs of a large group would take hours, and what breaks is rarely one pair alone. Where proxies differ, the one that
looked last is right.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pdserving.api import conditions as c
from pdserving.api.labels import DECODE, PAIR_FAILED, PAIR_UNKNOWN, PAIR_VERIFIED, PREFILL
from pdserving.api.v1alpha1.status import MAX_PAIRS
from pdserving.core.conditions import Verdict
from pdserving.core.failures import is_ready
from pdserving.core.template import look_up
from pdserving.core.transfer import REMEDY, judge_transfer
from pdserving.core.view import View, name_of

ORDER = (PAIR_FAILED, PAIR_UNKNOWN, PAIR_VERIFIED)
BLIND = (c.CANARY_REFUSED, c.ENGINES_BUSY, c.CANARY_INCONCLUSIVE)
"""Why nothing can be said, the most stubborn first."""
MAX_ERROR = 512
PORTS = "see the logs of both pods, and check that NetworkPolicies leave every TCP port open between them"
REMEDIES = {
    c.NO_KV_MOVED: REMEDY,
    c.WRONG_TOKENS: "compare model, revision and vLLM version of the two pods",
    c.TRANSFER_TIMED_OUT: PORTS,
    c.TRANSFER_FAILED: PORTS,
    c.CANARY_REFUSED: 'if it must stay so, for an API key of the engines perhaps, set spec.verification.mode to "Off"',
    c.ENGINES_BUSY: "a canary runs when their queues are empty",
}


@dataclass(frozen=True, slots=True)
class Pair:
    prefill: str
    decode: str
    state: str = PAIR_UNKNOWN
    reason: str = c.VERIFYING
    message: str = ""
    age: float = 0.0

    @property
    def error(self) -> str:
        return (f"{self.reason}: {self.message}" if self.message else self.reason)[:MAX_ERROR]

    def describe(self) -> str:
        remedy = REMEDIES.get(self.reason)
        return f"{self.prefill} → {self.decode}: {self.message}" + (f"; {remedy}" if remedy else "")


def judge_pairs(view: View, lane: str) -> Verdict:
    engines = {name for role in (PREFILL, DECODE) for name in _ready(view, role, lane)}
    if not all(_ready(view, role, lane) for role in (PREFILL, DECODE)):
        return Verdict("Unknown", c.VERIFYING, "there is no pair of ready engines")
    if not _has_reports(view):
        text = f"no proxy reports on pairs of engines ({len(view.observed.pools)} proxies answered)"
        return Verdict("Unknown", c.NO_PROXY_REPORT, text)
    pairs = read_pairs(view, lane)
    failed = [pair for pair in pairs if pair.state == PAIR_FAILED]
    if failed:
        text = f"{len(failed)} of {len(pairs)} pairs of engines fail their canaries: {failed[0].describe()}"
        return Verdict("False", failed[0].reason, text)
    proven = {name for pair in pairs if pair.state == PAIR_VERIFIED for name in (pair.prefill, pair.decode)}
    text = f"{len(proven)} of {len(engines)} engines passed a canary"
    if proven == engines:
        return Verdict("True", c.VERIFIED, f"{text}: KV cache moves and gives right tokens")
    return _explain(view, lane, text, [pair for pair in pairs if pair.state == PAIR_UNKNOWN])


def _explain(view: View, lane: str, text: str, unknown: list[Pair]) -> Verdict:
    blind = [pair for pair in unknown if pair.reason in BLIND]
    if not blind:
        return Verdict("Unknown", c.VERIFYING, text)
    cause = min(blind, key=lambda pair: BLIND.index(pair.reason))
    if cause.reason == c.ENGINES_BUSY and (counted := judge_transfer(view, lane)).status == "False":
        return counted
    return Verdict("Unknown", cause.reason, f"{text}; {cause.describe()}")


def build_pairs(view: View, lane: str) -> list[dict[str, Any]]:
    """For status."""
    return [
        {
            "prefill": pair.prefill,
            "decode": pair.decode,
            "state": pair.state,
            **({} if pair.state == PAIR_VERIFIED else {"error": pair.error}),
        }
        for pair in read_pairs(view, lane)[:MAX_PAIRS]
    ]


def read_pairs(view: View, lane: str) -> list[Pair]:
    """The last word on each pair of ready engines, failed pairs first."""
    words: dict[tuple[str, str], Pair] = {}
    for pair in _read_reports(view, lane):
        key = (pair.prefill, pair.decode)
        words[key] = min(words.get(key, pair), pair, key=lambda pair: (pair.state == PAIR_UNKNOWN, pair.age))
    return sorted(words.values(), key=lambda pair: (ORDER.index(pair.state), pair.prefill, pair.decode))


def _read_reports(view: View, lane: str) -> Iterator[Pair]:
    prefills, decodes = _ready(view, PREFILL, lane), _ready(view, DECODE, lane)
    for pool in view.observed.pools:
        entries = pool.get("pairs")
        for entry in entries if isinstance(entries, list) else ():
            if not isinstance(entry, Mapping) or entry.get("state") not in ORDER:
                continue
            prefill, decode, age = str(entry.get("prefill")), str(entry.get("decode")), entry.get("age")
            known = prefills.get(prefill) == entry.get("prefill_uid") and decodes.get(decode) == entry.get("decode_uid")
            if known and prefill in prefills and decode in decodes:
                yield Pair(
                    prefill=prefill,
                    decode=decode,
                    state=str(entry["state"]),
                    reason=str(entry.get("reason") or c.VERIFYING),
                    message=str(entry.get("message") or ""),
                    age=age if isinstance(age, int | float) else 0.0,
                )


def _has_reports(view: View) -> bool:
    return any(isinstance(pool.get("pairs"), list) for pool in view.observed.pools)


def _ready(view: View, role: str, lane: str) -> dict[str, Any]:
    """Pod name -> uid."""
    return {name_of(pod): look_up(pod, ("metadata", "uid")) for pod in view.pods(role, lane) if is_ready(pod)}
