"""What the API server should have refused becomes a problem with the field and the remedy."""

from typing import Any

import pytest

from pdserving.core.group import Group, Problem, parse_group
from pdserving.core.observed import Observed
from pdserving.core.plan import Defaults, plan
from tests.core.samples import DEFAULTS, NOW, make_group


def test_a_valid_group() -> None:
    group = parse_group(make_group())
    assert isinstance(group, Group)
    assert (group.name, group.namespace, group.uid) == ("llm", "serving", "group-uid")
    assert group.served_name == "llm"


def test_the_served_name_is_the_repository_or_what_the_user_says() -> None:
    hub = {"huggingFace": {"repo": "Qwen/Qwen3-8B"}}
    by_repo, by_user = (parse_group(make_group(model={"source": hub, **more})) for more in ({}, {"servedName": "x"}))
    assert isinstance(by_repo, Group)
    assert isinstance(by_user, Group)
    assert (by_repo.served_name, by_user.served_name) == ("Qwen/Qwen3-8B", "x")


@pytest.mark.parametrize(
    ("group", "message"),
    [
        (make_group(prefil={}), "spec.prefil: unknown field, remove it"),
        (make_group(decode={"replicas": -1}), "spec.decode.replicas: Input should be greater than or equal to 0"),
        (make_group(name="a" * 36), "metadata.name is longer than 35 characters: choose a shorter one"),
        (make_group(name="1a"), "metadata.name must be lower case letters"),
        (make_group(model={"source": {}}), "spec.model.source: set exactly one source"),
        (
            make_group(transfer={"protocol": "rdma"}),
            "spec.transfer: set rdma if and only if protocol is rdma",
        ),
        (
            make_group(transfer={"protocol": "rdma", "rdma": {}}),
            "spec.transfer.rdma: set exactly one of devicePlugin, hostDevice, resourceClaim and hostNetwork",
        ),
        (
            make_group(engine={"port": 8997}, transfer={"protocol": "rdma", "rdma": {"hostNetwork": {}}}),
            "spec.engine.port: with hostNetwork decode takes the next port, 8998: choose another",
        ),
        (
            make_group(
                transfer={
                    "protocol": "rdma",
                    "rdma": {"hostNetwork": {}},
                    "topology": [{"key": "kubernetes.io/hostname", "mode": "Required"}],
                }
            ),
            "spec: with hostNetwork a node has room for one engine of each role: set replicas to 1",
        ),
        (
            make_group(transfer={"protocol": "tcp", "topology": [{"key": "rack"}, {"key": "rack", "mode": "Spread"}]}),
            "spec.transfer.topology: name each key once",
        ),
        (make_group(engine={"args": ["--port=1"]}), "spec.engine.args: --port is not for args: use spec.engine.port"),
        (make_group(decode={"env": [{"name": "POD_NAME"}]}), "spec.decode.env: POD_NAME is not for env: remove it"),
        (
            make_group(decode={"args": ["--dtype=float16"]}),
            "spec.prefill and spec.decode: --dtype is not set for prefill",
        ),
        ({**make_group(), "spec": None}, "spec: Input should be"),
        ({"spec": make_group()["spec"]}, "metadata.name must be"),
    ],
)
def test_problems_are_named(group: dict[str, Any], message: str) -> None:
    problem = parse_group(group)
    assert isinstance(problem, Problem)
    assert problem.message.startswith(message)
    assert problem.reason == "InvalidSpec"


def test_an_operator_without_a_default_image_says_so() -> None:
    result = plan(make_group(), Observed(), NOW, Defaults(proxy_image=DEFAULTS.proxy_image))
    assert result.apply == ()
    ready = result.status["conditions"][0]
    assert ready["reason"] == "InvalidSpec"
    assert ready["message"].startswith("spec.engine.image: set it")
