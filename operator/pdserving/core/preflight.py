"""What the engine pods' preflight containers found, read from their termination messages.

The message is the JSON of `pdserving preflight`, possibly of another version and possibly cut by a crash, so reading is
total: what is no such JSON is a preflight that ended without an answer.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pdserving.api import conditions as c
from pdserving.api.labels import PREFILL, PREFLIGHT_CONTAINER, ROLE_LABEL
from pdserving.core.conditions import Verdict
from pdserving.core.observed import Object
from pdserving.core.template import look_up
from pdserving.core.view import labels_of, name_of

REASONS: Mapping[str, str] = {
    "environment": c.TRANSPORT_NOT_FORCED,
    "hca": c.NO_HCA,
    "uverbs": c.NO_RDMA_DEVICE,
    "device-count": c.RDMA_DEVICE_COUNT,
    "port-state": c.PORT_NOT_ACTIVE,
    "link-layer": c.LINK_LAYERS_MIXED,
    "partition": c.PARTITION_LIMITED,
    "gid": c.NO_USABLE_GID,
    "memlock": c.MEMLOCK_TOO_LOW,
    "gpu-direct": c.GPU_DIRECT_UNAVAILABLE,
    "shm": c.SHM_TOO_SMALL,
    "host-ip": c.HOST_IP_INVALID,
}
LINK_LAYER, RATE = "link-layer", "rate"
UNREADABLE = "the preflight left no result; see its log"


@dataclass(frozen=True, slots=True)
class Finding:
    """One check of one pod, as `pdserving preflight` put it."""

    name: str
    status: str
    value: str
    expected: str
    remedy: str

    def __str__(self) -> str:
        expected = f" (expected: {self.expected})" if self.expected else ""
        remedy = f"; {self.remedy}" if self.remedy else ""
        return f"{self.name}: {self.value}{expected}{remedy}"


@dataclass(frozen=True, slots=True)
class Preflight:
    """The newest answer of a pod."""

    pod: str
    node: str
    role: str
    findings: tuple[Finding, ...]

    def value(self, name: str) -> str:
        return next((finding.value for finding in self.findings if finding.name == name), "")

    def having(self, status: str) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.status == status)


def read_preflight(pod: Object) -> Preflight | None:
    """None while the pod has not finished a preflight."""
    ended = _read_end(pod)
    if ended is None:
        return None
    findings = parse_findings(ended)
    node = str(look_up(pod, ("spec", "nodeName")) or "")
    return Preflight(name_of(pod), node, str(labels_of(pod).get(ROLE_LABEL, "")), findings)


def _read_end(pod: Object) -> Mapping[str, Any] | None:
    container = look_up(pod, ("status", "initContainerStatuses", f"name={PREFLIGHT_CONTAINER}"))
    ended = look_up(container, ("state", "terminated")) or look_up(container, ("lastState", "terminated"))
    return ended if isinstance(ended, Mapping) else None


def parse_findings(ended: Mapping[str, Any]) -> tuple[Finding, ...]:
    """Of a terminated container state. A failed container without a readable answer counts as one failed check."""
    try:
        document = json.loads(str(ended.get("message", "")))
    except ValueError:
        document = None
    checks = document.get("checks") if isinstance(document, dict) else None
    findings = tuple(_parse_findings(checks)) if isinstance(checks, list) else ()
    if not findings and ended.get("exitCode") != 0:
        return (Finding("preflight", "fail", f"ended with exit code {ended.get('exitCode')}", "", UNREADABLE),)
    return findings


def _parse_findings(checks: Sequence[Any]) -> Iterator[Finding]:
    for check in checks:
        if isinstance(check, Mapping):
            name, status, value, expected, remedy = (
                str(check.get(key, "")) for key in ("name", "status", "value", "expected", "remedy")
            )
            yield Finding(name, status, value, expected, remedy)


def explain_failure(ended: Mapping[str, Any]) -> tuple[str, str]:
    """Reason and text of the first failed check, for a pod that its preflight does not let start."""
    failed = next((finding for finding in parse_findings(ended) if finding.status == "fail"), None)
    if failed is None:
        return c.PREFLIGHT_FAILED, UNREADABLE
    return REASONS.get(failed.name, c.PREFLIGHT_FAILED), str(failed)


def judge_preflight(pods: Sequence[Object]) -> Verdict:
    """One verdict on the engine pods of a lane, P and D, whatever the mode: `warn` lets a pod start, not pass."""
    done = [found for pod in pods if (found := read_preflight(pod))]
    failed = [found for found in done if found.having("fail")]
    if failed:
        return _judge_failed(failed, len(pods))
    if len(done) < len(pods) or not pods:
        waiting = sorted({name_of(pod) for pod in pods} - {found.pod for found in done})
        text = f"{len(done)} of {len(pods)} engine pods have been checked"
        return Verdict("Unknown", c.PREFLIGHT_PENDING, f"{text}; waiting for {', '.join(waiting)}" if waiting else text)
    return _judge_alike(done) or Verdict("True", c.ALL_PASSED, _describe(done))


def _judge_failed(failed: Sequence[Preflight], total: int) -> Verdict:
    first = failed[0]
    finding = first.having("fail")[0]
    count = f"{len(failed)} of {total} engine pods failed"
    where = f"pod {first.pod}" + (f" on node {first.node}" if first.node else "")
    return Verdict("False", REASONS.get(finding.name, c.PREFLIGHT_FAILED), f"{count}: {where}: {finding}")


def _judge_alike(done: Sequence[Preflight]) -> Verdict | None:
    """InfiniBand on one side and RoCE on the other: each pod is sound, and they can never talk."""
    sides: dict[bool, set[str]] = {True: set(), False: set()}
    for found in done:
        sides[found.role == PREFILL].add(found.value(LINK_LAYER))
    if not all(sides.values()) or sides[True] & sides[False]:
        return None
    prefill, decode = (", ".join(sorted(sides[side])) for side in (True, False))
    remedy = "name HCAs of one link layer in spec.transfer.hcas, or place both roles on one fabric"
    return Verdict("False", c.LINK_LAYERS_DIFFER, f"prefill pods are on {prefill}, decode pods on {decode}; {remedy}")


def _describe(done: Sequence[Preflight]) -> str:
    links = sorted({f"{found.value(LINK_LAYER)} {found.value(RATE)}".strip() for found in done} - {""})
    text = f"{len(done)} of {len(done)} engine pods passed" + (f": {'; '.join(links)}" if links else "")
    warnings = [(found, finding) for found in done for finding in found.having("warn")]
    if not warnings:
        return text
    found, finding = warnings[0]
    return f"{text}; {len(warnings)} warnings, the first: pod {found.pod}: {finding}"
