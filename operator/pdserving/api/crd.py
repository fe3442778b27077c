"""The CustomResourceDefinition, built from the models."""

from typing import Any

from pdserving.api import labels
from pdserving.api.schema import Schema, build_structural_schema
from pdserving.api.v1alpha1 import PDServingGroup


def _condition(field: str, condition: str = "Ready") -> str:
    return f'.status.conditions[?(@.type=="{condition}")].{field}'


COLUMNS = (
    ("Prefill", "string", ".status.prefill.summary", "Prefill engines, ready/wanted"),
    ("Decode", "string", ".status.decode.summary", "Decode engines, ready/wanted"),
    ("Proxy", "string", ".status.proxy.summary", "Proxies, ready/wanted"),
    ("Ready", "string", _condition("status"), "Whether the group answers requests"),
    ("Reason", "string", _condition("reason"), "Why it does or does not"),
    ("Age", "date", ".metadata.creationTimestamp", "Time since creation"),
)
WIDE_COLUMNS = (
    ("Lane", "string", ".status.lane", "Lane that serves"),
    ("Message", "string", _condition("message"), "Reason in words"),
)


def build_crd() -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{labels.PLURAL}.{labels.GROUP}"},
        "spec": {
            "group": labels.GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": labels.KIND,
                "listKind": f"{labels.KIND}List",
                "plural": labels.PLURAL,
                "singular": labels.KIND.lower(),
                "shortNames": [labels.SHORT_NAME],
                "categories": ["all"],
            },
            "versions": [
                {
                    "name": labels.VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": _build_columns(),
                    "schema": {"openAPIV3Schema": build_schema()},
                }
            ],
        },
    }


def build_schema() -> Schema:
    """The models' schema; of metadata the API server lets a CRD say nothing but that it is an object."""
    schema = build_structural_schema(PDServingGroup)
    schema["properties"]["metadata"] = {"type": "object"}
    schema["required"] = ["spec"]
    return schema


def _build_columns() -> list[dict[str, Any]]:
    columns = [(*column, 0) for column in COLUMNS] + [(*column, 1) for column in WIDE_COLUMNS]
    return [
        {"name": name, "type": kind, "jsonPath": path, "description": text, "priority": priority}
        for name, kind, path, text, priority in columns
    ]
