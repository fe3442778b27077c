"""The CRD is structural, bounded and described, and a model that can't be one stops the build."""

from collections.abc import Iterator
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from pdserving.api.crd import build_crd, build_schema
from pdserving.api.schema import UnsupportedSchemaError, build_structural_schema

PRESERVED = "x-kubernetes-preserve-unknown-fields"
UNBOUNDED = {"apiVersion", "kind"}


def walk(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from walk(child, f"{path}.{name}")
    if "items" in schema:
        yield from walk(schema["items"], f"{path}[]")
    if "additionalProperties" in schema:
        yield from walk(schema["additionalProperties"], f"{path}.*")


NODES = dict(walk(build_schema()))


def test_every_node_has_a_type() -> None:
    untyped = [path for path, node in NODES.items() if "type" not in node and "x-kubernetes-int-or-string" not in node]
    assert untyped == []


def test_every_field_is_described() -> None:
    fields = {path: node for path, node in NODES.items() if path and not path.endswith(("[]", ".*", ".metadata"))}
    assert [path for path, node in fields.items() if not node.get("description")] == []


@pytest.mark.parametrize(
    ("kind", "bounds"),
    [
        ("string", {"maxLength", "enum"}),
        ("array", {"maxItems"}),
        ("integer", {"maximum"}),
        ("object", {"properties", "maxProperties", PRESERVED}),
    ],
)
def test_everything_is_bounded(kind: str, bounds: set[str]) -> None:
    nodes = {
        path: node for path, node in NODES.items() if node.get("type") == kind and path.lstrip(".") not in UNBOUNDED
    }
    assert [path for path, node in nodes.items() if not bounds & node.keys() and path != ".metadata"] == []


def test_every_field_has_a_default_or_is_optional_or_says_why_not() -> None:
    """Required are only fields without which nothing can be built."""
    required = {f"{path}.{name}" for path, node in NODES.items() for name in node.get("required", ())}
    spec = {path.removeprefix(".spec.") for path in required if path.startswith(".spec.")}
    assert spec == {
        "model",
        "model.source",
        "model.source.huggingFace.repo",
        "model.source.huggingFace.tokenSecret.name",
        "model.source.persistentVolumeClaim.name",
        "model.source.image.reference",
        "model.source.hostPath.path",
        "model.source.inImage.path",
        "proxy.apiKey.secretName",
        "proxy.tls.secretName",
        "transfer",
        "transfer.protocol",
        "transfer.rdma.devicePlugin.resource",
        "transfer.rdma.hostDevice.resource",
        "transfer.rdma.hostDevice.networks",
        "transfer.rdma.resourceClaim.templateName",
        "transfer.topology[].key",
        "engine.env[].name",
        "prefill.env[].name",
        "decode.env[].name",
    }


def test_defaults_are_the_ones_that_explain_shows() -> None:
    defaults = {path.removeprefix(".spec."): node["default"] for path, node in NODES.items() if "default" in node}
    assert defaults["prefill"] == {}
    assert defaults["prefill.gpus"] == 1
    assert defaults["proxy.replicas"] == 2
    assert defaults["transfer.abortTimeoutSeconds"] == 60
    assert "prefill.replicas" not in defaults
    assert "transfer.gpuDirect" not in defaults


def test_templates_pass_through() -> None:
    preserved = {path for path, node in NODES.items() if node.get(PRESERVED)}
    assert preserved == {
        ".spec.prefill.template",
        ".spec.decode.template",
        ".spec.proxy.template",
        *(f".spec.{owner}.env[].valueFrom" for owner in ("engine", "prefill", "decode")),
    }


def test_lists_that_others_may_share_are_maps() -> None:
    keys = {
        path: node["x-kubernetes-list-map-keys"] for path, node in NODES.items() if "x-kubernetes-list-map-keys" in node
    }
    assert keys[".status.conditions"] == ["type"]
    assert keys[".spec.prefill.env"] == ["name"]


def test_every_rule_has_a_message_without_a_line_break() -> None:
    rules = [rule for node in NODES.values() for rule in node.get("x-kubernetes-validations", ())]
    assert len(rules) > 80
    assert all(rule["message"] and "\n" not in rule["message"] for rule in rules)


def test_names_and_columns() -> None:
    spec = build_crd()["spec"]
    (version,) = spec["versions"]
    assert (spec["names"]["shortNames"], spec["names"]["categories"]) == (["pdsg"], ["all"])
    assert version["subresources"] == {"status": {}}
    columns = [column["name"] for column in version["additionalPrinterColumns"] if not column["priority"]]
    assert columns == ["Prefill", "Decode", "Proxy", "Ready", "Reason", "Age"]


class Node(BaseModel):
    child: "Node | None" = None


class Union(BaseModel):
    value: int | list[int]


class Keyed(BaseModel):
    value: dict[Literal["a", "b"], int]


@pytest.mark.parametrize("model", [Node, Union, Keyed])
def test_what_a_crd_cannot_express_stops_the_build(model: type[BaseModel]) -> None:
    with pytest.raises(UnsupportedSchemaError):
        build_structural_schema(model)


class Numbers(BaseModel):
    above: int = Field(gt=0, lt=10)
    constant: Literal["x"] = "x"
    large: int = Field(default=1, le=2**40)


def test_conversion_of_bounds_and_constants() -> None:
    properties = build_structural_schema(Numbers)["properties"]
    above = properties["above"]
    assert (above["minimum"], above["exclusiveMinimum"]) == (0, True)
    assert (above["maximum"], above["exclusiveMaximum"]) == (10, True)
    assert above["format"] == "int32"
    assert properties["constant"]["enum"] == ["x"]
    assert properties["large"]["format"] == "int64"
