"""What a failed test prints: the state of every group, its conditions, events and logs, as text that fits on a page."""

from e2e.lib.kubectl import CommandError, Kubectl
from pdserving.api import labels

LINES = 40


def gather(kubectl: Kubectl, namespaces: list[str]) -> str:
    """Conditions, pods, events and the last log lines of each namespace; never raises."""
    return "\n".join(part for namespace in namespaces for part in _namespace(kubectl.within(namespace)))


def _namespace(kubectl: Kubectl) -> list[str]:
    title = f"=== namespace {kubectl.namespace}"
    groups = _say(kubectl, "get", labels.KIND, "-o", f"jsonpath={_CONDITIONS}")
    pods = _say(kubectl, "get", "pods", "-o", "wide")
    events = _last(_say(kubectl, "get", "events", "--sort-by=.lastTimestamp"))
    return [title, groups, pods, events, *(_logs(kubectl, pod) for pod in _names(kubectl))]


_CONDITIONS = (
    '{range .items[*]}{.metadata.name}{"\\n"}{range .status.conditions[*]}'
    '  {.type}={.status} {.reason}: {.message}{"\\n"}{end}{end}'
)


def _names(kubectl: Kubectl) -> list[str]:
    return _say(kubectl, "get", "pods", "-o", "name").split()


def _logs(kubectl: Kubectl, pod: str) -> str:
    now = _say(kubectl, "logs", pod, "--all-containers", f"--tail={LINES}")
    before = _say(kubectl, "logs", pod, "--all-containers", "--previous", f"--tail={LINES}")
    earlier = "" if before.startswith("(") else f"--- {pod}, before its restart\n{before}"
    return f"--- {pod}\n{now}{earlier}"


def _say(kubectl: Kubectl, *args: str) -> str:
    try:
        return kubectl.run(*args, timeout=30)
    except CommandError as error:
        return f"({error.stderr})\n"


def _last(text: str) -> str:
    return "\n".join(text.splitlines()[-LINES:])
