"""What the operator makes of the preflight containers' termination messages."""

import json
from dataclasses import replace
from typing import Any

import pytest

from pdserving.api import conditions as c
from pdserving.core.conditions import Verdict
from pdserving.core.observed import Observed
from pdserving.core.plan import plan
from pdserving.core.preflight import REASONS, explain_failure, judge_preflight
from pdserving.preflight.judge import CONTAINER, FABRIC
from pdserving.preflight.machine import Gpus, Machine, Memlock
from pdserving.preflight.wanted import Wanted
from tests.core.fake_cluster import FakeCluster
from tests.core.samples import DEFAULTS, NOW, make_group, make_pod

RDMA = {"protocol": "rdma", "rdma": {"devicePlugin": {"resource": "rdma/hca"}}}

ETHERNET = {"name": "link-layer", "status": "pass", "value": "Ethernet"}
INFINIBAND = {"name": "link-layer", "status": "pass", "value": "InfiniBand"}
RATE = {"name": "rate", "status": "pass", "value": "mlx5_0 400 Gb/sec (4X NDR)"}
MTU = {"name": "mtu", "status": "warn", "value": "net1 1500", "expected": "at least 4200", "remedy": "set jumbo frames"}
NO_NODE = {"name": "uverbs", "status": "fail", "value": "/dev/infiniband is absent", "remedy": "request the resource"}


def checked(name: str, role: str, *checks: dict[str, str], code: int = 0, field: str = "state") -> dict[str, Any]:
    """An engine pod on node n1 whose preflight container ended with these checks."""
    pod = make_pod(name, role)
    ended = {"exitCode": code, "message": json.dumps({"version": 1, "passed": not code, "checks": checks})}
    pod["spec"] = {"nodeName": "n1"}
    pod["status"]["initContainerStatuses"] = [{"name": "preflight", field: {"terminated": ended}}]
    return pod


def test_all_pods_that_pass_are_told_with_their_link():
    pods = [checked("g-prefill-0", "prefill", ETHERNET, RATE), checked("g-decode-0", "decode", ETHERNET, RATE)]
    text = "2 of 2 engine pods passed: Ethernet mlx5_0 400 Gb/sec (4X NDR)"
    assert judge_preflight(pods) == Verdict("True", c.ALL_PASSED, text)


def test_a_warning_is_told_with_its_pod_and_remedy():
    verdict = judge_preflight([checked("g-prefill-0", "prefill", ETHERNET, MTU)])
    assert verdict.status == "True"
    expected = "1 warnings, the first: pod g-prefill-0: mtu: net1 1500 (expected: at least 4200); set jumbo frames"
    assert verdict.message.endswith(expected)


def test_a_failure_names_pod_node_check_value_and_remedy():
    pods = [checked("g-prefill-0", "prefill", NO_NODE, code=1), checked("g-decode-0", "decode", ETHERNET)]
    text = (
        "1 of 2 engine pods failed: pod g-prefill-0 on node n1: uverbs: /dev/infiniband is absent; request the resource"
    )
    assert judge_preflight(pods) == Verdict("False", c.NO_RDMA_DEVICE, text)


def test_a_failure_that_only_warns_is_false_all_the_same():
    assert judge_preflight([checked("g-prefill-0", "prefill", NO_NODE, code=0)]).status == "False"


def test_the_last_end_counts_while_the_container_waits_to_be_started_again():
    pod = checked("g-prefill-0", "prefill", NO_NODE, code=1, field="lastState")
    assert judge_preflight([pod]).reason == c.NO_RDMA_DEVICE


def test_pods_that_are_not_checked_yet_are_unknown_and_named():
    verdict = judge_preflight([checked("g-prefill-0", "prefill", ETHERNET), make_pod("g-decode-0", "decode")])
    assert (verdict.status, verdict.reason) == ("Unknown", c.PREFLIGHT_PENDING)
    assert verdict.message == "1 of 2 engine pods have been checked; waiting for g-decode-0"


def test_link_layers_that_differ_between_the_roles_never_pass():
    pods = [checked("g-prefill-0", "prefill", INFINIBAND), checked("g-decode-0", "decode", ETHERNET)]
    verdict = judge_preflight(pods)
    assert (verdict.status, verdict.reason) == ("False", c.LINK_LAYERS_DIFFER)
    assert verdict.message.startswith("prefill pods are on InfiniBand, decode pods on Ethernet")


@pytest.mark.parametrize("message", ["", "Traceback …", "[]", '{"checks": 7}', '{"checks": [1, {"status": "fail"'])
def test_a_failed_container_without_a_readable_answer_is_a_failed_preflight(message):
    reason, text = explain_failure({"exitCode": 137, "message": message})
    assert (reason, text) == (
        c.PREFLIGHT_FAILED,
        "preflight: ended with exit code 137; the preflight left no result; see its log",
    )


def test_every_check_of_the_program_that_can_fail_has_its_reason():
    machine = Machine((), (), Memlock(None, ""), Gpus("", ""), "", 0, "")
    names = {check(machine, Wanted()).name for check in (*FABRIC, *CONTAINER)}
    never_fail = {"rate", "mtu", "gpu-affinity"}
    assert names - never_fail | {"environment"} == REASONS.keys()


def engine_sets(**transfer: Any) -> list[dict[str, Any]]:
    objects = plan(make_group(transfer={**RDMA, **transfer}), Observed(), NOW, DEFAULTS).apply
    return [manifest for manifest in objects if manifest["kind"] == "StatefulSet"]


def test_the_preflight_gets_the_engines_devices_and_rights():
    for manifest in engine_sets():
        spec = manifest["spec"]["template"]["spec"]
        (preflight,), (engine,) = spec["initContainers"], spec["containers"]
        assert preflight["resources"]["limits"]["rdma/hca"] == engine["resources"]["limits"]["rdma/hca"]
        assert preflight["securityContext"] == engine["securityContext"]
        assert {"name": "MC_FORCE_HCA", "value": "1"} in preflight["env"]


def test_switched_off_or_over_tcp_there_is_no_preflight():
    tcp = plan(make_group(), Observed(), NOW, DEFAULTS)
    assert all("initContainers" not in str(manifest) for manifest in (*tcp.apply, *engine_sets(preflight="skip")))
    assert c.PREFLIGHT_PASSED not in {entry["type"] for entry in tcp.status["conditions"]}


def test_the_preflight_gets_no_secrets():
    source = {"huggingFace": {"repo": "a/b", "tokenSecret": {"name": "hf"}}}
    objects = plan(make_group(model={"source": source}, transfer=RDMA), Observed(), NOW, DEFAULTS).apply
    spec = next(manifest for manifest in objects if manifest["kind"] == "StatefulSet")["spec"]["template"]["spec"]
    assert "secretKeyRef" in str(spec["containers"])
    assert "secretKeyRef" not in str(spec["initContainers"])


def test_a_new_operator_image_restarts_no_engine():
    cluster, group = FakeCluster(), make_group(transfer=RDMA)
    cluster.apply(plan(group, cluster.observe(), NOW, DEFAULTS))
    upgraded = replace(DEFAULTS, proxy_image="registry.example/pdserving:2")
    assert [manifest["kind"] for manifest in plan(group, cluster.observe(), NOW, upgraded).apply] == ["Deployment"]
    changed = make_group(transfer={**RDMA, "preflight": "warn"})
    assert {manifest["kind"] for manifest in plan(changed, cluster.observe(), NOW, upgraded).apply} == {
        "Deployment",
        "StatefulSet",
    }
