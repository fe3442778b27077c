"""From pod states, events and logs to a reason and a sentence with the remedy."""

from typing import Any

import pytest

from pdserving.api import conditions as c
from pdserving.core.failures import Failure, crashed, diagnose_missing_pods, diagnose_pod
from pdserving.core.observed import Observed
from tests.core.samples import make_pod

NOTHING = Observed()


def event(name: str, reason: str, message: str, kind: str = "Pod", **more: Any) -> dict[str, Any]:
    return {"involvedObject": {"kind": kind, "name": name}, "reason": reason, "message": message, **more}


def diagnose(pod: dict[str, Any], *events: dict[str, Any], log: str = "") -> Failure:
    failure = diagnose_pod(pod, Observed(events=events, logs={"p-0": log}))
    assert failure is not None
    return failure


def ended(code: int = 1, *, restarts: int = 1, reason: str = "Error", **state: Any) -> dict[str, Any]:
    """An engine that ended, and what it does now."""
    termination = {"exitCode": code, "reason": reason}
    return make_pod("p-0", restartCount=restarts, lastState={"terminated": termination}, state=state)


def test_a_ready_pod_has_no_failure() -> None:
    pod = make_pod("p-0")
    pod["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    assert diagnose_pod(pod, NOTHING) is None
    assert not crashed(pod)


def test_unschedulable_repeats_the_scheduler() -> None:
    pod = make_pod("p-0")
    message = (
        "0/3 nodes are available: 3 Insufficient nvidia.com/gpu. no new claims to deallocate, "
        "preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
    )
    pod["status"] = {"conditions": [{"type": "PodScheduled", "status": "False", "message": message}]}
    failure = diagnose(pod)
    assert failure.reason == c.UNSCHEDULABLE
    assert failure.message == (
        "pod p-0 can't be scheduled: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu; "
        "add or free nodes, or ask for less"
    )
    assert failure.blocking


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        ("ErrImagePull", "not found"),
        ("ImagePullBackOff", 'Back-off pulling image "vllm:1": ErrImagePull: not found'),
    ],
)
def test_an_image_that_cannot_be_pulled_is_told_alike_in_each_attempt(reason: str, text: str) -> None:
    failure = diagnose(make_pod("p-0", state={"waiting": {"reason": reason, "message": text}}))
    assert failure == Failure(
        c.IMAGE_PULL_FAILED,
        "pod p-0, container engine: can't pull vllm:1: not found; "
        "check the image's name and the pod's imagePullSecrets",
    )


def test_an_older_kubelet_tells_the_cause_of_a_failed_pull_only_in_an_event() -> None:
    pod = make_pod(
        "p-0", state={"waiting": {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "vllm:1"'}}
    )
    assert "no such host" in diagnose(pod, event("p-0", "Failed", "no such host")).message
    assert "Back-off pulling" in diagnose(pod).message


def test_a_missing_secret() -> None:
    waiting = {"reason": "CreateContainerConfigError", "message": 'secret "hub" not found'}
    failure = diagnose(make_pod("p-0", state={"waiting": waiting}))
    assert failure.reason == c.CONTAINER_CONFIG_INVALID
    assert 'secret "hub" not found' in failure.message


def test_a_volume_that_cannot_be_mounted() -> None:
    pod = make_pod("p-0", state={"waiting": {"reason": "ContainerCreating"}})
    stale = event("p-0", "FailedMount", "of an earlier pod")
    stale["involvedObject"]["uid"] = "earlier"
    failure = diagnose(pod, stale, event("p-0", "FailedMount", 'persistentvolumeclaim "m" not found'))
    assert failure.reason == c.VOLUME_NOT_MOUNTED
    assert 'persistentvolumeclaim "m" not found' in failure.message


@pytest.mark.parametrize(
    ("volume", "why", "remedy"),
    [
        ("api-key", 'secret "clients" not found', "create the Secret of spec.proxy.apiKey with that key"),
        ("api-key", "references non-existent secret key: k", "create the Secret of spec.proxy.apiKey with that key"),
        ("tls", 'secret "llm-tls" not found', "create the Secret of spec.proxy.tls with tls.crt and tls.key"),
    ],
)
def test_a_proxy_without_one_of_its_secrets(volume: str, why: str, remedy: str) -> None:
    pod = make_pod("p-0", role="proxy", state={"waiting": {"reason": "ContainerCreating"}})
    cause = event("p-0", "FailedMount", f'MountVolume.SetUp failed for volume "{volume}" : {why}')
    summary = "Unable to attach or mount volumes: unmounted volumes=[x]: timed out waiting for the condition"
    newer = event("p-0", "FailedMount", summary, lastTimestamp="2026-12-01T02:00:00Z")
    failure = diagnose(pod, cause, newer)
    assert failure.reason == c.VOLUME_NOT_MOUNTED
    assert why in failure.message
    assert failure.message.endswith(f"{remedy}, or correct the field")
    assert "unmounted" in diagnose(pod, newer).message, "better than nothing"


def test_a_volume_of_an_engine_may_have_the_name_of_one_of_the_proxys() -> None:
    pod = make_pod("p-0", state={"waiting": {"reason": "ContainerCreating"}})
    cause = event("p-0", "FailedMount", 'MountVolume.SetUp failed for volume "api-key" : secret "x" not found')
    assert "spec.proxy" not in diagnose(pod, cause).message


def test_the_newest_event_counts_and_the_smallest_of_equals() -> None:
    pod = make_pod("p-0", state={"waiting": {"reason": "ContainerCreating"}})
    old = event("p-0", "FailedMount", "old", lastTimestamp="2026-01-01T00:00:00Z")
    first = event("p-0", "FailedMount", "b", eventTime="2026-01-02T00:00:00Z")
    second = event("p-0", "FailedMount", "a", series={"lastObservedTime": "2026-01-02T00:00:00Z"})
    assert diagnose(pod, old, first, second).message.endswith(": a")


def test_an_engine_that_loads_is_starting_and_does_not_block() -> None:
    failure = diagnose(make_pod("p-0", state={"running": {"startedAt": "2026-12-01T02:00:00Z"}}))
    assert failure == Failure(
        c.STARTING, "pod p-0, container engine: started at 2026-12-01T02:00:00Z, not ready yet", blocking=False
    )


def test_an_engine_that_does_not_answer() -> None:
    failure = diagnose(make_pod("p-0", started=True, state={"running": {"startedAt": "x"}}))
    assert (failure.reason, failure.blocking) == (c.UNHEALTHY, False)


def test_a_pod_without_containers_yet_and_one_on_its_way_out() -> None:
    pod = make_pod("p-0")
    pod["status"]["containerStatuses"] = []
    assert diagnose(pod) == Failure(c.STARTING, "pod p-0 is being created", blocking=False)
    pod["metadata"]["deletionTimestamp"] = "2026-12-01T02:00:00Z"
    assert diagnose(pod).reason == c.TERMINATING


@pytest.mark.parametrize(
    ("log", "reason", "remedy"),
    [
        ("ValueError: No common block size for 16", c.ENGINE_CRASHED, ""),
        ("vllm serve: error: unrecognized arguments: --x", c.INVALID_ENGINE_ARGUMENTS, "correct args"),
        ("OSError: Repository Not Found for url", c.MODEL_NOT_FOUND, "check spec.model.source"),
        ("GatedRepoError: 403 Client Error", c.MODEL_ACCESS_DENIED, "tokenSecret"),
        ("torch.OutOfMemoryError: CUDA out of memory", c.OUT_OF_MEMORY, "--gpu-memory-utilization"),
    ],
)
def test_a_crash_is_explained_by_the_previous_log(log: str, reason: str, remedy: str) -> None:
    pod = ended(running={"startedAt": "x"})
    assert crashed(pod)
    failure = diagnose(pod, log=log)
    assert failure.reason == reason
    assert log in failure.message
    assert "exit code 1" in failure.message
    assert remedy in failure.message


def test_without_a_log_the_termination_message_is_all_there_is() -> None:
    pod = make_pod("p-0", state={"terminated": {"exitCode": 1, "message": "RuntimeError: no device"}})
    assert "RuntimeError: no device" in diagnose(pod).message
    assert "no error found in its log" in diagnose(ended(137)).message


def test_a_healthy_engine_beside_a_failing_sidecar_did_not_crash() -> None:
    pod = make_pod("p-0", ready=True, lastState={"terminated": {"exitCode": 1}}, state={"running": {"startedAt": "x"}})
    assert not crashed(pod)
    sidecar = {"name": "side", "ready": False, "state": {"terminated": {"exitCode": 3, "message": "ValueError: bad"}}}
    pod["status"]["containerStatuses"].append(sidecar)
    assert diagnose(pod).message == "pod p-0, container side: ended with exit code 3: ValueError: bad"


def test_exit_code_0_is_an_engine_that_died() -> None:
    assert diagnose(ended(0, reason="Completed")).reason == c.ENGINE_DIED


def test_killed_for_memory() -> None:
    failure = diagnose(ended(137, reason="OOMKilled"), log="ValueError: not this")
    assert failure.reason == c.OUT_OF_MEMORY
    assert "resources.limits.memory" in failure.message


def test_one_crash_after_a_long_life_does_not_block_and_a_loop_does() -> None:
    pod = ended(1, restarts=3, running={"startedAt": "x"})
    assert diagnose(pod).blocking
    assert not diagnose(ended(1, restarts=1, running={"startedAt": "x"})).blocking
    assert diagnose(ended(1, restarts=1, waiting={"reason": "CrashLoopBackOff"})).blocking
    termination = pod["status"]["containerStatuses"][0]["lastState"]["terminated"]
    termination |= {"startedAt": "2026-12-01T00:00:00Z", "finishedAt": "2026-12-01T02:00:00Z"}
    assert not diagnose(pod).blocking


def test_an_init_container_comes_first_and_a_finished_one_is_no_failure() -> None:
    pod = make_pod("p-0", state={"waiting": {"reason": "PodInitializing"}})
    done = {"name": "fetch", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}
    failing = {"name": "check", "state": {"terminated": {"exitCode": 2, "message": "ValueError: bad"}}}
    pod["status"]["initContainerStatuses"] = [done]
    assert diagnose(pod).reason == c.STARTING
    pod["status"]["initContainerStatuses"] = [done, failing]
    assert diagnose(pod).message.startswith("pod p-0, container check: ended with exit code 2")


SET = {"kind": "StatefulSet", "metadata": {"name": "llm-prefill-0"}, "spec": {"replicas": 1}}


@pytest.mark.parametrize(
    ("text", "reason", "remedy"),
    [
        ('pods "x" is forbidden: exceeded quota: q, requested: pods=1', c.QUOTA_EXCEEDED, "raise the ResourceQuota"),
        (
            'pods "x" is forbidden: violates PodSecurity "restricted:latest"',
            c.POD_SECURITY_VIOLATION,
            "enforce=privileged",
        ),
        ("admission webhook denied the request", c.POD_CREATE_FAILED, ""),
    ],
)
def test_pods_that_could_not_be_created(text: str, reason: str, remedy: str) -> None:
    report = f"create Pod llm-prefill-0-0 in StatefulSet llm-prefill-0 failed error: {text}"
    failure = diagnose_missing_pods(
        SET, Observed(events=(event("llm-prefill-0", "FailedCreate", report, "StatefulSet"),))
    )
    assert failure is not None
    assert failure.reason == reason
    assert failure.message.startswith(f"StatefulSet llm-prefill-0: {text}")
    assert remedy in failure.message


def test_a_deployment_tells_it_in_a_condition() -> None:
    condition = {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota: q"}
    deployment = {"kind": "Deployment", "metadata": {"name": "llm-proxy"}, "status": {"conditions": [condition]}}
    failure = diagnose_missing_pods(deployment, NOTHING)
    assert failure is not None
    assert failure.reason == c.QUOTA_EXCEEDED
    assert diagnose_missing_pods(SET, NOTHING) is None
