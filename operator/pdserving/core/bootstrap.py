"""Whether prefill engines are registered, as the proxies report it in ``/debug/pool``."""

from collections.abc import Iterator, Mapping
from typing import Any

from pdserving.api import conditions as c
from pdserving.api.labels import PREFILL
from pdserving.core.conditions import Verdict
from pdserving.core.failures import is_ready
from pdserving.core.observed import Object
from pdserving.core.template import look_up
from pdserving.core.view import View, name_of


def judge_bootstrap(view: View, lane: str) -> Verdict:
    """Every ready prefill pod of the lane must be complete in the eyes of at least one proxy."""
    pods = [pod for pod in view.pods(PREFILL, lane) if is_ready(pod)]
    if not pods:
        return Verdict("False", c.NO_READY_PREFILL, "no prefill engine is ready")
    reports = {name_of(pod): list(_reports(view, pod)) for pod in pods}
    silent = [name for name, entries in reports.items() if not entries]
    if silent:
        text = f"no proxy reports on {', '.join(silent)} ({len(view.observed.pools)} proxies answered)"
        return Verdict("Unknown", c.NO_PROXY_REPORT, text)
    incomplete = {name: entries[0] for name, entries in reports.items() if not any(map(_complete, entries))}
    if incomplete:
        return _incomplete(incomplete, len(pods))
    return Verdict("True", c.ALL_REGISTERED, f"{len(pods)} of {len(pods)} prefill engines have registered all ranks")


def _reports(view: View, pod: Object) -> Iterator[Mapping[str, Any]]:
    uid = look_up(pod, ("metadata", "uid"))
    for pool in view.observed.pools:
        entries = pool.get(PREFILL)
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, Mapping) and entry.get("pod") == name_of(pod) and entry.get("uid") in (None, uid):
                yield entry


def _complete(entry: Mapping[str, Any]) -> bool:
    return bool(entry.get("engine_ids")) and not entry.get("missing_ranks") and not entry.get("bootstrap_error")


def _incomplete(entries: Mapping[str, Mapping[str, Any]], total: int) -> Verdict:
    name, entry = next(iter(entries.items()))
    count = f"{len(entries)} of {total} prefill engines are not usable"
    if error := entry.get("bootstrap_error"):
        text = f"{count}: bootstrap server of {name} does not answer the proxy: {error}; check NetworkPolicies"
        return Verdict("False", c.BOOTSTRAP_UNREACHABLE, text)
    missing = entry.get("missing_ranks")
    ranks = ", ".join(map(str, missing)) if isinstance(missing, list) and missing else "all ranks"
    return Verdict("False", c.RANKS_MISSING, f"{count}: {name} has not registered {ranks}")
