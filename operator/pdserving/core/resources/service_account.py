"""The identity of a group's proxies."""

from typing import Any

from pdserving.api import labels
from pdserving.core import names
from pdserving.core.group import Group
from pdserving.core.resources.metadata import build_metadata


def build_proxy_account(group: Group) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": build_metadata(group, names.proxy(group.name), labels.PROXY),
    }
