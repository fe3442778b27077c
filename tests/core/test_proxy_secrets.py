"""What of a proxy's pod a template may change where it mounts Secrets, and what status says of proxies without keys."""

from dataclasses import replace
from typing import Any

import pytest

from pdserving.api import conditions as c
from pdserving.core.observed import Observed
from pdserving.core.plan import plan
from tests.core.fake_cluster import FakeCluster
from tests.core.samples import DEFAULTS, NOW, make_group
from tests.core.test_status import judge, set_ready, start

API_KEY = {"apiKey": {"secretName": "clients"}}


def explain(proxy: dict[str, Any], template: dict[str, Any]) -> str:
    """Why the template is refused, empty if it is not."""
    template = {"containers": [{"name": "proxy"}], **template}
    group = make_group(proxy={**proxy, "template": {"spec": template}})
    valid = next(
        entry for entry in plan(group, Observed(), NOW, DEFAULTS).status["conditions"] if entry["type"] == c.SPEC_VALID
    )
    return "" if valid["status"] == "True" else str(valid["message"])


MOUNT = {"name": "mine", "mountPath": "/etc/pdserving/api-key"}
CHANGES: list[tuple[dict[str, Any], str]] = [
    ({"volumes": [{"name": "api-key", "emptyDir": {}}]}, "use spec.proxy.apiKey"),
    ({"volumes": [{"name": "api-key", "secret": {"secretName": "other"}}]}, "use spec.proxy.apiKey"),
    ({"containers": [{"name": "proxy", "volumeMounts": [MOUNT]}]}, "remove it"),
]


@pytest.mark.parametrize(
    ("proxy", "port", "endpoint"),
    [
        ({}, {"name": "http", "port": 80, "targetPort": "http"}, "http://llm.serving.svc/v1"),
        (
            {"tls": {"secretName": "t"}},
            {"name": "https", "port": 443, "targetPort": "https", "appProtocol": "https"},
            "https://llm.serving.svc/v1",
        ),
        (
            {"tls": {"secretName": "t"}, "service": {"port": 80}},
            {"name": "https", "port": 80, "targetPort": "https", "appProtocol": "https"},
            "https://llm.serving.svc:80/v1",
        ),
    ],
    ids=["plain", "TLS", "TLS on another port"],
)
def test_service_and_endpoint(proxy: dict[str, Any], port: dict[str, Any], endpoint: str) -> None:
    group = make_group(proxy=proxy)
    cluster = start(group)
    assert cluster.objects["Service", "llm"]["spec"]["ports"] == [{**port, "protocol": "TCP"}]
    assert group["status"]["endpoint"] == endpoint


@pytest.mark.parametrize(("template", "remedy"), CHANGES)
def test_a_template_cannot_replace_a_mounted_secret(template: dict[str, Any], remedy: str) -> None:
    assert remedy in explain(API_KEY, template)
    assert explain({}, template) == "", "without a Secret the name is free"


def test_a_template_may_add_volumes_beside_it() -> None:
    assert explain(API_KEY, {"volumes": [{"name": "mine", "emptyDir": {}}]}) == ""


def run_without_keys() -> tuple[dict[str, Any], FakeCluster]:
    """Proxies that run and are not ready."""
    group = make_group(proxy=API_KEY)
    cluster = start(group)
    set_ready(cluster, "-proxy", 0)
    for pod in cluster.pods:
        if "-proxy" in pod["metadata"]["name"]:
            running = {"name": "proxy", "ready": False, "started": True, "state": {"running": {"startedAt": "x"}}}
            pod["status"]["containerStatuses"] = [running]
    return group, cluster


def test_proxies_that_refuse_everybody_say_why_in_status() -> None:
    group, cluster = run_without_keys()
    (pool,) = cluster.observe().pools
    told = "API keys: /etc/pdserving/api-key/api-keys holds none; write one a line; everybody is refused"
    verdicts = judge(group, replace(cluster.observe(), pools=({**pool, "obstacles": [told]},)))
    assert verdicts[c.PROXY_AVAILABLE][:2] == ("False", c.UNHEALTHY)
    assert told in verdicts[c.PROXY_AVAILABLE][2]
    assert verdicts[c.STALLED][0] == "True"


@pytest.mark.parametrize("obstacles", [[], None, 3, [{}], "x"])
def test_proxies_that_tell_nothing_of_use_are_judged_without_it(obstacles: Any) -> None:
    group, cluster = run_without_keys()
    (pool,) = cluster.observe().pools
    verdicts = judge(group, replace(cluster.observe(), pools=({**pool, "obstacles": obstacles},)))
    assert verdicts[c.PROXY_AVAILABLE][:2] == ("False", c.UNHEALTHY)
    assert verdicts[c.STALLED][0] == "False"
