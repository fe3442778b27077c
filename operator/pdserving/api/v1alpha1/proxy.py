"""``spec.proxy``: the OpenAI endpoint that sends each request to a prefill and then to a decode engine."""

from typing import Annotated, Literal

from pydantic import Field

from pdserving.api.v1alpha1.base import Image, Model, ObjectName
from pdserving.api.v1alpha1.engine import Preserved, Resources
from pdserving.api.v1alpha1.model import PullPolicy

KEY_PATTERN = r"^[-._a-zA-Z0-9]*[-_a-zA-Z0-9][-._a-zA-Z0-9]*$"
"""Not of dots alone: it becomes a file's name."""
Seconds = Annotated[int, Field(ge=1, le=86400)]


class ProxyTimeouts(Model):
    prefill_seconds: Seconds = 300
    """For a prefill engine's whole answer, its queue included."""
    first_byte_seconds: Seconds = 60
    """From sending a request to a decode engine to the first byte of its answer."""
    idle_seconds: Seconds = 120
    """Between two pieces of a streamed answer."""
    request_seconds: Seconds = 3600
    """For a whole request."""
    drain_seconds: Seconds = 30
    """For running requests after the proxy was told to stop."""


class ProxyLimits(Model):
    max_in_flight: Annotated[int, Field(ge=1, le=1000000)] = 4096
    """Requests at once in each proxy; more are answered with 429."""
    max_body_bytes: Annotated[int, Field(ge=1024, le=2147483647)] = 67108864
    """Size of a request's body; a longer one is answered with 413."""
    max_local_prefills: Annotated[int, Field(ge=0, le=10000)] = 4
    """Prompts at once that decode engines compute themselves because no prefill engine could."""


class ProxyDispatch(Model):
    local_prefill_below_tokens: Annotated[int, Field(ge=0, le=1000000)] = 0
    """Prompts shorter than this, by an estimate of four bytes a token, go to a decode engine alone, which computes them
    itself: for a short prompt the way over a prefill engine may take longer than the computation. 0 sends every prompt
    to a prefill engine."""


class ProxyService(Model):
    type: Literal["ClusterIP", "NodePort", "LoadBalancer"] = "ClusterIP"
    """Type of the group's Service."""
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    """Port of the group's Service. By default 80, and 443 with tls."""
    annotations: Annotated[dict[str, Annotated[str, Field(max_length=4096)]], Field(max_length=32)] = Field(
        default_factory=dict
    )
    """Annotations of the group's Service, for load balancer controllers."""


class ProxyApiKey(Model):
    secret_name: ObjectName
    """Secret in the group's namespace. A change of it reaches the proxies in about a minute, without a restart."""
    key: Annotated[str, Field(min_length=1, max_length=253, pattern=KEY_PATTERN)] = "api-keys"
    """Key in that Secret. Its value has the API keys, one a line; with two of them clients can change from one to the
    other."""


class ProxyTls(Model):
    secret_name: ObjectName
    """Secret of type kubernetes.io/tls in the group's namespace: tls.crt, with the certificates of the chain, and
    tls.key. A change of it reaches new connections in about a minute, without a restart."""


class ProxySpec(Model):
    replicas: Annotated[int, Field(ge=0, le=64)] = 2
    """Proxy pods. With two, the loss of one interrupts only the requests in it."""
    image: Image | None = None
    """Proxy image. By default the one with which the operator was installed."""
    image_pull_policy: PullPolicy | None = None
    """When the kubelet pulls the proxy image. By default as the operator was told at its installation."""
    resources: Resources = Resources(requests={"cpu": "100m", "memory": "128Mi"}, limits={"memory": "1Gi"})
    """Requests and limits of the proxy container."""
    dispatch: ProxyDispatch = ProxyDispatch()
    """Which requests go to a prefill engine first."""
    on_prefill_failure: Literal["RecomputeOnDecode", "Fail"] = "RecomputeOnDecode"
    """What happens when no prefill engine can take a prompt: a decode engine computes it, or the request fails."""
    max_retries: Annotated[int, Field(ge=0, le=10)] = 1
    """How often a leg of a request is tried on another engine before its first byte went to the client."""
    timeouts: ProxyTimeouts = ProxyTimeouts()
    """When the proxy gives up waiting."""
    limits: ProxyLimits = ProxyLimits()
    """How much the proxy takes on at once."""
    service: ProxyService = ProxyService()
    """The Service, named as the group, through which clients reach the proxies."""
    api_key: ProxyApiKey | None = None
    """Serve only clients that show one of these keys, as `Authorization: Bearer KEY` or as `x-api-key: KEY`. Only
    /health and /ready are open. By default everybody who reaches the group's Service is served."""
    tls: ProxyTls | None = None
    """Clients connect by TLS, 1.2 or newer, and no longer in the clear. By default the endpoint is plain HTTP."""
    access_log: bool = False
    """One line of JSON for each request on the proxy's standard output: which engines served it, by which path, how it
    ended and how long each part took. Prompts and answers are not in it."""
    log_format: Literal["text", "json"] = "text"
    """Of all other log lines: text for people, json for machines."""
    template: Preserved | None = None
    """Any field of a pod template, merged as in the roles' templates; the container is named proxy."""
