"""What holds for every spec and every observed state: plans are total, and applying one leaves nothing to do."""

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pdserving.core.observed import Observed
from pdserving.core.plan import WATCH_SECONDS, Plan, needs, plan, report
from tests.core.fake_cluster import FakeCluster
from tests.core.samples import DEFAULTS, NOW, make_group

_CALM = (HealthCheck.too_slow,)
"""A busy machine is no failure."""
THOROUGH = settings(max_examples=15, deadline=None, suppress_health_check=_CALM)
BROAD = settings(max_examples=50, deadline=None, suppress_health_check=_CALM)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=8), children, max_size=3),
    max_leaves=10,
)
field_names = st.sampled_from(
    ["model", "transfer", "prefill", "source", "args", "env", "template", "spec", "metadata", "containers", "name"]
)
nonsense = st.recursive(
    json_values,
    lambda children: st.dictionaries(field_names, children, max_size=4) | st.lists(children, max_size=2),
    max_leaves=12,
)
templates = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "metadata": st.dictionaries(st.sampled_from(["labels", "annotations"]), nonsense, max_size=2),
        "spec": st.dictionaries(
            st.sampled_from(["containers", "volumes", "tolerations", "securityContext", "nodeSelector", "hostNetwork"]),
            nonsense | st.just([{"name": "engine"}]),
            max_size=3,
        ),
    },
)
quantities = st.dictionaries(
    st.sampled_from(["cpu", "memory"]), st.sampled_from(["1000m", "1", "2Gi", "100m", 3]), max_size=2
)
roles = st.fixed_dictionaries(
    {"gpus": st.integers(0, 8)},
    optional={
        "replicas": st.integers(0, 5),
        "args": st.lists(st.sampled_from(["--max-num-seqs=8", "--enforce-eager", "x"]), max_size=3),
        "env": st.just([{"name": "A", "value": "1"}]),
        "resources": st.fixed_dictionaries({"requests": quantities, "limits": quantities}),
        "parallelism": st.fixed_dictionaries({"tensor": st.integers(1, 4), "expert": st.booleans()}),
        "template": st.just(
            {
                "metadata": {"labels": {"team": "search"}},
                "spec": {
                    "containers": [
                        {"name": "engine", "env": [{"name": "B", "value": "2"}]},
                        {"name": "side", "image": "s"},
                    ],
                    "nodeSelector": {"gpu": "h200"},
                    "hostIPC": False,
                },
            }
        ),
    },
)
sources = st.sampled_from(
    [
        {"inImage": {"path": "/model"}},
        {"huggingFace": {"repo": "Qwen/Qwen3-8B", "revision": "main", "tokenSecret": {"name": "hf"}}},
        {"persistentVolumeClaim": {"name": "models", "path": "qwen"}},
        {"image": {"reference": "registry.example/model:1"}},
        {"hostPath": {"path": "/models"}},
    ]
)
transfers = st.sampled_from(
    [
        {"protocol": "tcp"},
        {"protocol": "rdma", "rdma": {"devicePlugin": {"resource": "rdma/hca", "count": 2}}},
        {"protocol": "rdma", "rdma": {"hostDevice": {"resource": "nvidia.com/vf", "networks": ["a/b", "c"]}}},
        {"protocol": "rdma", "rdma": {"hostNetwork": {"resource": "rdma/a"}}},
        {"protocol": "rdma", "rdma": {"resourceClaim": {"templateName": "hcas"}}, "preflight": "warn"},
        {"protocol": "tcp", "topology": [{"key": "zone", "mode": "Required"}, {"key": "rack", "mode": "Spread"}]},
        {
            "protocol": "rdma",
            "rdma": {"devicePlugin": {"resource": "rdma/hca"}},
            "hcas": ["mlx5_0", "mlx5_1"],
            "gidIndex": 3,
            "gpuDirect": "dmabuf",
        },
    ]
)
groups = st.builds(
    lambda source, **spec: make_group(model={"source": source}, **spec),
    source=sources,
    transfer=transfers,
    prefill=roles,
    decode=roles,
    suspend=st.booleans(),
)


def settle(cluster: FakeCluster, group: dict[str, Any], rounds: int = 4) -> Plan:
    """Reconcile a few times with everything going well; the plan that is left."""
    for _ in range(rounds):
        step = plan(group, cluster.observe(), NOW, DEFAULTS)
        cluster.apply(step)
        cluster.run()
        group["status"], _ = report(group, step, [], NOW)
    return plan(group, cluster.observe(), NOW, DEFAULTS)


@given(groups)
@THOROUGH
def test_planning_again_after_applying_is_empty(group: dict[str, Any]) -> None:
    left = settle(FakeCluster(), group)
    assert (left.apply, left.delete, left.events) == ((), (), ())
    assert report(group, left, [], NOW) == (group["status"], ())


@given(groups)
@THOROUGH
def test_a_settled_group_is_ready_and_is_only_watched(group: dict[str, Any]) -> None:
    group["spec"]["prefill"]["replicas"] = group["spec"]["decode"]["replicas"] = 1
    left = settle(FakeCluster(), group)
    conditions = {condition["type"]: condition["status"] for condition in left.status["conditions"]}
    assert left.requeue_after == (None if group["spec"]["suspend"] else WATCH_SECONDS)
    assert conditions["Ready"] == str(not group["spec"]["suspend"])
    assert (conditions["Reconciling"], conditions["Stalled"]) == ("False", "False")


@given(groups, groups)
@THOROUGH
def test_every_group_becomes_every_other(first: dict[str, Any], second: dict[str, Any]) -> None:
    cluster = FakeCluster()
    settle(cluster, first)
    second["status"] = first["status"]
    left = settle(cluster, second)
    assert (left.apply, left.delete) == ((), ())
    assert len(cluster.lanes()) == 1


@given(nonsense, nonsense)
@BROAD
def test_any_spec_and_status_give_a_plan(spec: Any, status: Any) -> None:
    group = {**make_group(), "spec": spec, "status": status}
    result = plan(group, Observed(), NOW, DEFAULTS)
    final, _ = report(group, result, [], NOW)
    json.dumps(final)


@given(templates, templates, templates)
@BROAD
def test_any_template_gives_a_plan_or_a_condition(prefill: Any, decode: Any, proxy: Any) -> None:
    spec = {
        "prefill": {"replicas": 1, "template": prefill},
        "decode": {"replicas": 1, "template": decode},
        "proxy": {"template": proxy},
    }
    result = plan(make_group(**spec), Observed(), NOW, DEFAULTS)
    valid = next(condition for condition in result.status["conditions"] if condition["type"] == "SpecValid")
    assert bool(result.apply) == (valid["status"] == "True")
    assert valid["status"] == "True" or valid["message"].startswith("spec.")


@given(
    st.lists(
        st.fixed_dictionaries({"kind": st.just("StatefulSet")}, optional={"spec": nonsense, "status": nonsense}),
        max_size=2,
    )
)
@BROAD
def test_any_observed_state_gives_a_plan(objects: list[dict[str, Any]]) -> None:
    for live in objects:
        live["metadata"] = {"name": "x", "labels": {"pdserving.dev/role": "decode", "pdserving.dev/lane": "l"}}
        live["apiVersion"] = "apps/v1"
    plan(make_group(), Observed(objects=tuple(objects)), NOW, DEFAULTS)


@given(nonsense, nonsense, nonsense)
@BROAD
def test_any_pod_event_and_pool_give_a_plan(status: Any, event: Any, pool: Any) -> None:
    labels = {
        "pdserving.dev/role": "prefill",
        "pdserving.dev/lane": plan(make_group(), Observed(), NOW, DEFAULTS).status["targetLane"],
    }
    pod = {"metadata": {"name": "p", "labels": labels}, "status": status}
    objects = (event, pool)
    observed = Observed(
        pods=(pod,),
        events=tuple(each for each in objects if isinstance(each, dict)),
        pools=tuple(each for each in objects if isinstance(each, dict)),
    )
    needs(make_group(), observed)
    plan(make_group(), observed, NOW, DEFAULTS)
