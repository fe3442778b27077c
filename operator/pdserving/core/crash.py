"""Why a container ended: the reason and the sentence, from its exit state and the engine's previous log."""

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from pdserving.api import conditions as c
from pdserving.api.labels import ENGINE_CONTAINER
from pdserving.core.log_cause import find_cause
from pdserving.core.observed import Object
from pdserving.core.template import look_up
from pdserving.core.timestamps import parse_time

LONG_LIFE = timedelta(minutes=10)
"""After which the kubelet forgets its back-off."""
CAUSES = (
    (
        c.MODEL_ACCESS_DENIED,
        re.compile(r"GatedRepo|gated repo|401 Client Error|403 Client Error|awaiting a review"),
        "give a token with access in spec.model.source.huggingFace.tokenSecret",
    ),
    (
        c.MODEL_NOT_FOUND,
        re.compile(
            r"Repository ?Not ?Found|RevisionNotFound|Invalid repository ID|HFValidationError|LocalEntryNotFound"
            r"|not a valid model identifier|is not a local folder|Incorrect path_or_model_id"
            r"|does not appear to have a file named|Can't load the configuration|No such file or directory: '/model"
        ),
        "check spec.model.source",
    ),
    (
        c.INVALID_ENGINE_ARGUMENTS,
        re.compile(r"(^|: )error: |unrecognized arguments|validation errors? for \w*(Config|Args)"),
        "correct args in spec.engine or in the role",
    ),
    (
        c.OUT_OF_MEMORY,
        re.compile(r"out of memory|OutOfMemory|No available memory for the cache blocks|less than desired GPU memory"),
        "give the engine more memory, or lower --gpu-memory-utilization or --max-model-len",
    ),
)
"""Reason, pattern in the cause, remedy."""


def read_termination(container: Object) -> Mapping[str, Any] | None:
    """How a container that is not ready ended last."""
    if container.get("ready"):
        return None
    ended = look_up(container, ("state", "terminated")) or look_up(container, ("lastState", "terminated"))
    return ended if isinstance(ended, Mapping) else None


def explain_termination(name: Any, ended: Mapping[str, Any], log: str) -> tuple[str, str]:
    """Reason and text. `log` is the engine's previous log, empty for other containers."""
    code = ended.get("exitCode")
    if ended.get("reason") == "OOMKilled":
        return c.OUT_OF_MEMORY, "killed at its memory limit; raise resources.limits.memory"
    cause = find_cause(log)
    if cause is None and code == 0 and name == ENGINE_CONTAINER:
        return c.ENGINE_DIED, "ended with exit code 0, as vLLM does after its engine died; see its previous log"
    cause = cause or find_cause(str(ended.get("message", ""))) or "no error found in its log"
    for reason, pattern, remedy in CAUSES:
        if pattern.search(cause):
            return reason, f"ended with exit code {code}: {cause}; {remedy}"
    return c.ENGINE_CRASHED, f"ended with exit code {code}: {cause}"


def is_loop(container: Object, ended: Mapping[str, Any]) -> bool:
    """Whether it ends again and again, not once after a long life; told alike while it waits and while it runs."""
    if look_up(container, ("state", "waiting", "reason")) == "CrashLoopBackOff":
        return True
    started, finished = parse_time(ended.get("startedAt")), parse_time(ended.get("finishedAt"))
    lived = finished - started if started and finished else timedelta()
    restarts = container.get("restartCount")
    return isinstance(restarts, int) and restarts >= 2 and lived < LONG_LIFE
