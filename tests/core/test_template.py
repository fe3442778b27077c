"""A user's template is merged as `kubectl patch --type strategic` would, and never over what we own."""

from typing import Any

import pytest

from pdserving.core.template import Owned, TemplateError, merge_template

BASE: dict[str, Any] = {
    "metadata": {"labels": {"app": "ours"}},
    "spec": {
        "containers": [
            {
                "name": "engine",
                "image": "vllm:1",
                "env": [{"name": "A", "value": "1"}, {"name": "P", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}],
                "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
                "readinessProbe": {"httpGet": {"path": "/health", "port": "http"}, "periodSeconds": 3},
            }
        ],
        "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}}],
        "tolerations": [{"key": "ours"}],
    },
}
OWNED = [
    Owned(("metadata", "labels", "app"), "remove it"),
    Owned(("spec", "containers", "name=engine", "image"), "use spec.decode.image"),
    Owned(("spec", "hostNetwork"), "remove it"),
]


def merge(user: Any) -> dict[str, Any]:
    return merge_template(BASE, user, OWNED, "spec.decode.template", "engine")


def merge_spec(**spec: Any) -> dict[str, Any]:
    merged: dict[str, Any] = merge({"spec": spec})["spec"]
    return merged


def merge_engine(**engine: Any) -> dict[str, Any]:
    (container,) = merge_spec(containers=[{"name": "engine", **engine}])["containers"]
    return dict(container)


def test_no_template_changes_nothing() -> None:
    assert merge(None) == BASE
    assert merge({}) == BASE


def test_the_base_is_not_touched() -> None:
    merge_engine(env=[{"name": "A", "value": "2"}])
    assert BASE["spec"]["containers"][0]["env"][0]["value"] == "1"


def test_containers_meet_by_name_and_others_are_added() -> None:
    merged = merge_spec(containers=[{"name": "side", "image": "s"}, {"name": "engine", "tty": True}])
    assert [container["name"] for container in merged["containers"]] == ["engine", "side"]
    assert merged["containers"][0]["image"] == "vllm:1"
    assert merged["containers"][0]["tty"] is True


def test_variables_meet_by_name_and_one_source_replaces_the_other() -> None:
    env = merge_engine(env=[{"name": "P", "value": "x"}, {"name": "N", "value": "new"}])["env"]
    assert env == [{"name": "A", "value": "1"}, {"name": "P", "value": "x"}, {"name": "N", "value": "new"}]


def test_mounts_meet_by_path() -> None:
    mounts = merge_engine(volumeMounts=[{"name": "big", "mountPath": "/dev/shm"}])["volumeMounts"]
    assert mounts == [{"name": "big", "mountPath": "/dev/shm"}]


def test_a_volume_of_another_kind_replaces_ours_and_one_of_the_same_kind_is_merged() -> None:
    claim = {"name": "shm", "persistentVolumeClaim": {"claimName": "c"}}
    assert merge_spec(volumes=[claim])["volumes"] == [claim]
    bigger = merge_spec(volumes=[{"name": "shm", "emptyDir": {"sizeLimit": "16Gi"}}])["volumes"]
    assert bigger == [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}}]


def test_tolerations_are_appended() -> None:
    assert merge_spec(tolerations=[{"key": "user"}])["tolerations"] == [{"key": "ours"}, {"key": "user"}]


def test_another_handler_replaces_a_probe_s_and_keeps_its_times() -> None:
    probe = merge_engine(readinessProbe={"exec": {"command": ["x"]}})["readinessProbe"]
    assert probe == {"exec": {"command": ["x"]}, "periodSeconds": 3}
    probe = merge_engine(readinessProbe={"httpGet": {"path": "/live"}})["readinessProbe"]
    assert probe == {"httpGet": {"path": "/live", "port": "http"}, "periodSeconds": 3}


def test_null_removes() -> None:
    assert "readinessProbe" not in merge_engine(readinessProbe=None)
    assert "nothing" not in merge_engine(nothing=None)


def test_fields_newer_than_this_code_pass() -> None:
    assert merge_spec(fromTheFuture={"x": [1]})["fromTheFuture"] == {"x": [1]}


def test_labels_may_be_called_like_a_list_of_the_pod() -> None:
    assert merge({"metadata": {"labels": {"env": "prod"}}})["metadata"]["labels"] == {"app": "ours", "env": "prod"}


@pytest.mark.parametrize(
    ("user", "message"),
    [
        ({"kind": "Pod"}, "spec.decode.template.kind: a pod template holds metadata and spec, remove kind"),
        ({"spec": "x"}, "spec.decode.template.spec: expected an object, found 'x'"),
        ({"metadata": {"labels": []}}, "spec.decode.template.metadata.labels: expected an object, found []"),
        ({"spec": {"containers": "x"}}, "spec.decode.template.spec.containers: expected a list, found 'x'"),
        ({"spec": {"tolerations": {}}}, "spec.decode.template.spec.tolerations: expected a list, found {}"),
        (
            {"spec": {"containers": []}},
            'spec.decode.template: no container named "engine" (found no names); name the vLLM container "engine"',
        ),
        (
            {"spec": {"containers": [{"name": "vllm"}, 3]}},
            'spec.decode.template: no container named "engine" (found \'vllm\'); name the vLLM container "engine"',
        ),
        (
            {"spec": {"containers": [{"name": "engine"}, {"image": "x"}]}},
            "spec.decode.template.spec.containers[1]: set name",
        ),
        (
            {"spec": {"containers": [{"name": "engine", "image": "mine"}]}},
            "spec.decode.template.spec.containers[engine].image: owned by the operator; use spec.decode.image",
        ),
        (
            {"spec": {"containers": None}},
            "spec.decode.template.spec.containers[engine].image: owned by the operator; use",
        ),
        ({"metadata": {"labels": {"app": "mine"}}}, "spec.decode.template.metadata.labels.app: owned by the operator"),
        ({"spec": {"hostNetwork": True}}, "spec.decode.template.spec.hostNetwork: owned by the operator; remove it"),
        ({"spec": {"$patch": "replace"}}, "spec.decode.template.spec.$patch: merge directives are not supported"),
    ],
)
def test_what_cannot_be_merged_is_named(user: Any, message: str) -> None:
    with pytest.raises(TemplateError) as error:
        merge(user)
    assert str(error.value).startswith(message)
