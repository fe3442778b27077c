"""From pydantic's JSON schema to a structural schema, the dialect that a CRD speaks.

The two differ: no references, no null, booleans for exclusive bounds, `x-kubernetes-*` for what JSON schema says with
unions and constants. Whatever a structural schema can't express stops the build instead of being dropped.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

Schema = dict[str, Any]

FORBIDDEN = frozenset(
    ("$defs", "oneOf", "allOf", "not", "if", "patternProperties", "prefixItems", "discriminator", "propertyNames")
)
QUANTITY: Schema = {
    "x-kubernetes-int-or-string": True,
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "maxLength": 64,
    "pattern": r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$",
}

KEY_ORDER = (
    "description",
    "type",
    "format",
    "default",
    "enum",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "pattern",
)
"""What a reader of the CRD wants first; the rest follows by name."""


class UnsupportedSchemaError(TypeError):
    """A model uses what a structural schema can't express."""


def build_structural_schema(model: type[BaseModel]) -> Schema:
    schema = model.model_json_schema(by_alias=True)
    definitions = schema.pop("$defs", {})
    return _convert(schema, definitions, path=model.__name__)


def _convert(schema: Mapping[str, Any], definitions: Mapping[str, Schema], path: str) -> Schema:
    node = _resolve(schema, definitions, path)
    if unsupported := FORBIDDEN & node.keys():
        raise UnsupportedSchemaError(f"{path}: {', '.join(sorted(unsupported))} can't be part of a structural schema")
    node.pop("title", None)
    if "description" in node:
        node["description"] = " ".join(node["description"].split())
    if "const" in node:
        node["enum"] = [node.pop("const")]
    _convert_bounds(node)
    _convert_children(node, definitions, path)
    _convert_default(node)
    return dict(sorted(node.items(), key=_rank))


def _rank(item: tuple[str, Any]) -> tuple[int, str]:
    key = item[0]
    return (KEY_ORDER.index(key) if key in KEY_ORDER else len(KEY_ORDER), key)


def _resolve(
    schema: Mapping[str, Any], definitions: Mapping[str, Schema], path: str, seen: tuple[str, ...] = ()
) -> Schema:
    """Inline a reference and unwrap an optional; what stands beside them wins."""
    node = dict(schema)
    if reference := node.pop("$ref", None):
        name = reference.rsplit("/", 1)[-1]
        if name in seen or path.count(".") > 32:
            raise UnsupportedSchemaError(f"{path}: recursion through {name}")
        return _resolve({**definitions[name], **node}, definitions, path, (*seen, name))
    if options := node.pop("anyOf", None):
        kinds = [option for option in options if option.get("type") != "null"]
        if [kind.get("type") for kind in kinds] == ["integer", "string"]:
            return {**node, **QUANTITY}
        if len(kinds) != 1:
            raise UnsupportedSchemaError(f"{path}: a union can't be part of a structural schema")
        return _resolve({**kinds[0], **node}, definitions, path, seen)
    return node


def _convert_bounds(node: Schema) -> None:
    """OpenAPI 3.0 marks a bound as exclusive with a boolean beside it."""
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if exclusive in node:
            node[bound] = node[exclusive]
            node[exclusive] = True
    if node.get("type") == "integer":
        node["format"] = "int64" if node.get("maximum", 2**63) >= 2**31 else "int32"


def _convert_children(node: Schema, definitions: Mapping[str, Schema], path: str) -> None:
    if "properties" in node:
        node.pop("additionalProperties", None)
        node["properties"] = {
            name: _convert(child, definitions, f"{path}.{name}") for name, child in node["properties"].items()
        }
    elif isinstance(node.get("additionalProperties"), Mapping):
        node["additionalProperties"] = _convert(node["additionalProperties"], definitions, f"{path}.*")
    else:
        node.pop("additionalProperties", None)
    if "items" in node:
        node["items"] = _convert(node["items"], definitions, f"{path}[]")


def _convert_default(node: Schema) -> None:
    """Keep defaults that say something; those of an object's fields fill in the rest, so `{}` is enough for it."""
    if "default" not in node:
        return
    default = _without_nested_defaults(node["default"], node)
    if default in (None, "", []) or ("properties" not in node and default == {}):
        del node["default"]
    else:
        node["default"] = default


def _without_nested_defaults(value: Any, schema: Mapping[str, Any]) -> Any:
    if not isinstance(value, Mapping) or "properties" not in schema:
        return value
    fields = schema["properties"]
    kept = {name: _without_nested_defaults(child, fields[name]) for name, child in value.items()}
    return {name: child for name, child in kept.items() if child not in (None, "", [], {}, fields[name].get("default"))}
