"""Each condition's verdict on a situation, and Ready, which sums them up."""

from collections.abc import Mapping

from pdserving.api import conditions as c
from pdserving.api.labels import PROXY
from pdserving.core.bootstrap import judge_bootstrap
from pdserving.core.conditions import Verdict
from pdserving.core.failures import Failure
from pdserving.core.group import Problem
from pdserving.core.pairs import judge_pairs
from pdserving.core.preflight import judge_preflight
from pdserving.core.rates import judge_rate
from pdserving.core.situation import Situation, diagnose, find_obstacle
from pdserving.core.transfer import judge_transfer
from pdserving.core.view import ROLES, Scale

REMEDY_SUSPENDED = "set spec.suspend to false to start it again"


def judge(situation: Situation) -> dict[str, Verdict]:
    view, shown = situation.view, situation.shown
    failures = diagnose(situation)
    verdicts = {
        c.SPEC_VALID: _judge_spec(situation.problem),
        c.BOOTSTRAP_READY: judge_bootstrap(view, shown.name),
        c.KV_TRANSFER_VERIFIED: (judge_pairs if situation.canaries else judge_transfer)(view, shown.name),
        c.PREFILL_AVAILABLE: _judge_scale(situation, "prefill", situation.scale("prefill"), failures["prefill"]),
        c.DECODE_AVAILABLE: _judge_scale(situation, "decode", situation.scale("decode"), failures["decode"]),
        c.PROXY_AVAILABLE: _judge_scale(situation, PROXY, situation.proxies, failures[PROXY]),
    }
    if situation.preflight:
        verdicts[c.PREFLIGHT_PASSED] = judge_preflight([pod for role in ROLES for pod in view.pods(role, shown.name)])
    if situation.preflight and situation.canaries:
        verdicts[c.RDMA_DEGRADED] = judge_rate(view, shown.name)
    obstacle = find_obstacle(situation, failures)
    verdicts[c.STALLED] = _judge_stalled(situation.problem, obstacle)
    verdicts[c.RECONCILING] = _judge_reconciling(situation, verdicts[c.STALLED])
    verdicts[c.READY] = _judge_ready(situation, verdicts)
    return verdicts


def _judge_spec(problem: Problem | None) -> Verdict:
    if problem:
        return Verdict("False", problem.reason, problem.message)
    return Verdict("True", c.VALID, "the spec is valid")


def _judge_scale(situation: Situation, role: str, scale: Scale, failure: Failure | None) -> Verdict:
    count = f"{scale.ready} of {scale.desired} {role} pods are ready"
    if situation.suspended:
        return Verdict("False", c.SUSPENDED, f"suspended; {REMEDY_SUSPENDED}")
    if situation.group and not scale.desired and not scale.ready:
        return Verdict("False", c.SCALED_TO_ZERO, f"no {role} pods are wanted; raise replicas of {role}")
    if scale.ready:
        if scale.ready >= scale.desired:
            return Verdict("True", c.ALL_READY, count)
        return Verdict("True", c.SOME_READY, f"{count}: {failure.message}" if failure else count)
    if failure:
        return Verdict("False", failure.reason, f"{count}: {failure.message}")
    return Verdict("False", c.NONE_READY, count)


def _judge_stalled(problem: Problem | None, obstacle: Failure | None) -> Verdict:
    if problem:
        return Verdict("True", problem.reason, problem.message)
    if obstacle:
        return Verdict("True", obstacle.reason, obstacle.message)
    return Verdict("False", c.PROGRESSING, "nothing is in the way")


def _judge_reconciling(situation: Situation, stalled: Verdict) -> Verdict:
    """Stalled and reconciling exclude each other (kstatus)."""
    if stalled.status == "True":
        return Verdict("False", stalled.reason, "stalled, see the condition Stalled")
    serving = situation.serving
    scales = [*(situation.scale(role) for role in ROLES), situation.proxies]
    if serving and situation.target not in (None, serving.name):
        text = f"lane {situation.target} comes up beside lane {serving.name}"
        return Verdict("True", c.CHANGING_LANE, text)
    if not situation.pending and all(scale.settled for scale in scales):
        return Verdict("False", c.SETTLED, "the cluster is as the spec asks")
    if not serving:
        return Verdict("True", c.CREATING, "engines and proxies are starting")
    if any(scale.updated < scale.desired or not scale.current for scale in scales) or situation.pending:
        return Verdict("True", c.ROLLING_OUT, "pods are being replaced")
    return Verdict("True", c.SCALING, "pods are being added or removed")


def _judge_ready(situation: Situation, verdicts: Mapping[str, Verdict]) -> Verdict:
    parts = (c.PREFILL_AVAILABLE, c.DECODE_AVAILABLE, c.PROXY_AVAILABLE)
    lacking = next((verdicts[part] for part in parts if verdicts[part].status != "True"), None)
    bootstrap = verdicts[c.BOOTSTRAP_READY]
    if lacking is None and bootstrap.status != "False":
        return _judge_verified(situation, verdicts[c.KV_TRANSFER_VERIFIED]) or _judge_serving(situation, verdicts)
    if situation.problem:
        return Verdict("False", situation.problem.reason, situation.problem.message)
    lacking = lacking or bootstrap
    return Verdict("False", lacking.reason if lacking.reason != c.NONE_READY else c.NOT_SERVING, lacking.message)


def _judge_verified(situation: Situation, transfer: Verdict) -> Verdict | None:
    """What keeps a group from Ready that has all engines. None if nothing does.

    A lane must be proven once, and a proven failure counts at any time. But where nothing can be said, a group that was
    Ready stays so, and engines that are too busy for a canary clearly serve.
    """
    if not situation.enforced or transfer.status == "True":
        return None
    if transfer.status == "False":
        return Verdict("False", transfer.reason, transfer.message)
    if situation.was_ready or transfer.reason == c.ENGINES_BUSY:
        return None
    return Verdict("False", c.KV_TRANSFER_NOT_VERIFIED, transfer.message)


def _judge_serving(situation: Situation, verdicts: Mapping[str, Verdict]) -> Verdict:
    lane = situation.shown
    ready = (*(lane.scale(role).ready for role in ROLES), situation.view.proxies.ready)
    count = "ready: {} prefill, {} decode, {} proxy".format(*ready)
    if situation.problem:
        text = f"{count}, with the last valid spec: {situation.problem.message}"
        return Verdict("True", c.SERVING_LAST_VALID_SPEC, text)
    if situation.target != lane.name:
        stalled = verdicts[c.STALLED]
        reason = f": {stalled.message}" if stalled.status == "True" else ""
        text = f"{count}, in lane {lane.name} while lane {situation.target} comes up{reason}"
        return Verdict("True", c.SERVING_PREVIOUS_LANE, text)
    return Verdict("True", c.SERVING, count)
