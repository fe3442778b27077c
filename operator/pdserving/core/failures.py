"""Say why a pod is not ready: the reason for programs, the message for people, with the remedy.

Everything is judged from what the cluster reports: pod conditions, container states, events of objects whose pods were
refused, and the previous log of an engine that crashed. Messages hold no counters that run, so that a status is written
only when something else is the matter.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pdserving.api import conditions as c
from pdserving.api.labels import ENGINE_CONTAINER, PREFLIGHT_CONTAINER
from pdserving.core.crash import explain_termination, is_loop, read_termination
from pdserving.core.events import find_newest, message_of
from pdserving.core.observed import Object, Observed
from pdserving.core.preflight import explain_failure
from pdserving.core.template import look_up
from pdserving.core.unscheduled import explain_unmade_claim, explain_unscheduled
from pdserving.core.unstarted import explain_unstarted
from pdserving.core.view import name_of, objects_in

IMAGE_REASONS = frozenset(
    ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError")
)
CONFIG_REASONS = frozenset(("CreateContainerConfigError", "CreateContainerError", "RunContainerError", "StartError"))
BACK_OFF = re.compile(r'^Back-off pulling image "[^"]*": (\w+: )?')
STATEFUL_SET_PREFIX = re.compile(r"^create Pod \S+ in StatefulSet \S+ failed error: ")
POD_SECURITY_REMEDY = (
    "label the namespace pod-security.kubernetes.io/enforce=privileged, or use transfer.protocol tcp and a template "
    "that keeps to the enforced level"
)


@dataclass(frozen=True, slots=True)
class Failure:
    reason: str
    message: str
    blocking: bool = True
    """Whether waiting alone will probably not help."""


def diagnose_pod(pod: Object, observed: Observed) -> Failure | None:
    """Why this pod is not ready; None if it is."""
    if is_ready(pod):
        return None
    if look_up(pod, ("metadata", "deletionTimestamp")):
        return Failure(c.TERMINATING, f"pod {name_of(pod)} is terminating", blocking=False)
    return _scheduling(pod, observed) or _container(pod, observed) or _unstarted(pod, observed) or _starting(pod)


def is_ready(pod: Object) -> bool:
    return _condition(pod, "Ready").get("status") == "True"


def crashed(pod: Object) -> bool:
    """Whether an engine container of this not-ready pod ended before, so that its previous log may tell why."""
    engines = [status for status in _containers(pod) if status.get("name") == ENGINE_CONTAINER]
    return not is_ready(pod) and any(map(read_termination, engines))


def diagnose_missing_pods(workload: Object, observed: Observed) -> Failure | None:
    """Why a StatefulSet or Deployment could not create its pods, by the newest report of it."""
    report = _replica_failure(workload) or message_of(find_newest(observed, workload, ("FailedCreate",)))
    if not report:
        return None
    text = f"{workload.get('kind')} {name_of(workload)}: {STATEFUL_SET_PREFIX.sub('', report)}"
    if "exceeded quota" in text:
        return Failure(c.QUOTA_EXCEEDED, f"{text}; raise the ResourceQuota or lower the resources asked for")
    if "violates PodSecurity" in text:
        return Failure(c.POD_SECURITY_VIOLATION, f"{text}; {POD_SECURITY_REMEDY}")
    return Failure(c.POD_CREATE_FAILED, text)


def _scheduling(pod: Object, observed: Observed) -> Failure | None:
    if unmade := explain_unmade_claim(pod, observed):
        reason, text = unmade
        return Failure(reason, text, blocking=reason != c.STARTING)
    condition = _condition(pod, "PodScheduled")
    if condition.get("status") != "False":
        return None
    report = explain_unscheduled(str(condition.get("message", "no reason given")))
    return Failure(c.UNSCHEDULABLE, f"pod {name_of(pod)} can't be scheduled: {report}")


def _container(pod: Object, observed: Observed) -> Failure | None:
    """The first container that is in trouble, init containers first as the kubelet starts them first."""
    for field in ("initContainerStatuses", "containerStatuses"):
        for container in objects_in(look_up(pod, ("status", field))):
            failure = _waiting(pod, container, observed) or _terminated(pod, container, observed)
            if failure:
                return failure
    return None


def _waiting(pod: Object, container: Object, observed: Observed) -> Failure | None:
    reason = look_up(container, ("state", "waiting", "reason"))
    text = str(look_up(container, ("state", "waiting", "message")) or "")
    where = _where(pod, container)
    if reason in IMAGE_REASONS:
        cause = _pull_error(pod, text, observed)
        remedy = "check the image's name and the pod's imagePullSecrets"
        return Failure(c.IMAGE_PULL_FAILED, f"{where}: can't pull {container.get('image')}: {cause}; {remedy}")
    if reason in CONFIG_REASONS:
        return Failure(c.CONTAINER_CONFIG_INVALID, f"{where}: {text or reason}; correct what it refers to")
    return None


def _pull_error(pod: Object, text: str, observed: Observed) -> str:
    """What the kubelet says, alike in its first attempt and in its later waiting."""
    plain = BACK_OFF.sub("", text)
    if plain.startswith("Back-off"):
        return message_of(find_newest(observed, pod, ("Failed",))) or plain
    return plain or "no reason given"


def _terminated(pod: Object, container: Object, observed: Observed) -> Failure | None:
    ended, name = read_termination(container), container.get("name")
    engine = name == ENGINE_CONTAINER
    if ended is None or (ended.get("exitCode") == 0 and not engine):
        return None
    if name == PREFLIGHT_CONTAINER:
        reason, text = explain_failure(ended)
    else:
        reason, text = explain_termination(name, ended, observed.logs.get(name_of(pod), "") if engine else "")
    return Failure(reason, f"{_where(pod, container)}: {text}", blocking=is_loop(container, ended))


def _unstarted(pod: Object, observed: Observed) -> Failure | None:
    if any(look_up(container, ("state", "running")) for container in _containers(pod)):
        return None
    explained = explain_unstarted(pod, observed)
    return Failure(*explained) if explained else None


def _starting(pod: Object) -> Failure:
    for container in _containers(pod):
        if look_up(container, ("state", "running")) and not container.get("ready"):
            if container.get("started"):
                text = f"{_where(pod, container)}: runs but does not answer its probe"
                return Failure(c.UNHEALTHY, text, blocking=False)
            since = look_up(container, ("state", "running", "startedAt"))
            text = f"{_where(pod, container)}: started at {since}, not ready yet"
            return Failure(c.STARTING, text, blocking=False)
    return Failure(c.STARTING, f"pod {name_of(pod)} is being created", blocking=False)


def _where(pod: Object, container: Object) -> str:
    return f"pod {name_of(pod)}, container {container.get('name')}"


def _containers(pod: Object) -> Sequence[Object]:
    return objects_in(look_up(pod, ("status", "containerStatuses")))


def _condition(manifest: Object, kind: str) -> Object:
    found = objects_in(look_up(manifest, ("status", "conditions")))
    return next((condition for condition in found if condition.get("type") == kind), {})


def _replica_failure(workload: Object) -> str:
    condition = _condition(workload, "ReplicaFailure")
    return str(condition.get("message", "")) if condition.get("status") == "True" else ""
