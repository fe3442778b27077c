"""The operator has the rights that it uses and no others: its roles against what the audit log saw in this suite."""

import pytest

from e2e.lib import audit
from e2e.lib.kubectl import Kubectl
from e2e.lib.release import DEPLOYMENT, NAMESPACE, USER, Release
from e2e.lib.target import Target

Right = tuple[str, str, str]
"""API group, resource, verb."""
NEEDED_THOUGH_UNSEEN: dict[Right, str] = {
    ("", "pods", "get"): "the proxy's Role contains it, and nobody may grant a right that he does not hold",
    ("apps", "statefulsets", "delete"): "only a lane that another has replaced is deleted; the api tier watches that",
}


@pytest.fixture
def seen(target: Target, release: Release) -> list[audit.Request]:
    if not target.audit_log:
        pytest.skip(f"CLUSTER={target.name} has no audit log here; CLUSTER=self has one")
    return list(audit.requests(target.audit_log, USER))


def test_no_request_was_forbidden(seen: list[audit.Request]) -> None:
    """Writes that admission refused on purpose (quota, Pod Security) are made by controllers, not by the operator."""
    assert seen
    assert not [str(request) for request in audit.forbidden(seen)]


def test_every_right_was_used(seen: list[audit.Request], target: Target) -> None:
    unused = granted(target.kubectl) - used(seen) - set(NEEDED_THOUGH_UNSEEN)
    assert not unused, f"granted and never used: {sorted(unused)}"


def used(seen: list[audit.Request]) -> set[Right]:
    """Server-side apply of a new object is logged as the patch that it is, and authorized as a create too."""
    rights = {request.right for request in seen if request.code < 400}
    return rights | {(r.group, r.resource, "create") for r in seen if r.verb == "patch" and r.code == 201}


def granted(kubectl: Kubectl) -> set[Right]:
    roles = [
        kubectl.get("clusterrole", DEPLOYMENT),
        kubectl.within(NAMESPACE).get("role", f"{DEPLOYMENT}-lease"),
    ]
    rules = [rule for role in roles for rule in role["rules"]]
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
