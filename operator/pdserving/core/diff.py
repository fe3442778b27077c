"""Does a live object differ from what we want? Without this a settled group would be written at every resync.

An object is as desired if our fields are all in it and nothing that we once set and no longer set can be left: the
second is what the hash of the desired object, kept in an annotation, proves. Fields of other owners are none of our
business.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from pdserving.api.labels import DESIRED_HASH
from pdserving.core.quantity import same_quantity
from pdserving.core.template import MERGE_KEYS

QUANTITIES = frozenset(("requests", "limits"))
QUANTITY_FIELDS = frozenset(("sizeLimit", "storage", "divisor"))
ATOMIC = frozenset(("selector", "podSelector", "namespaceSelector", "matchLabels", "nodeSelector"))
"""Maps that have one owner as a whole: an entry that somebody adds changes what ours select."""


def stamp(desired: Mapping[str, Any]) -> dict[str, Any]:
    """The object with its own hash in an annotation."""
    text = json.dumps(desired, sort_keys=True, separators=(",", ":"))
    metadata = desired["metadata"]
    annotations = {**metadata.get("annotations", {}), DESIRED_HASH: hashlib.sha256(text.encode()).hexdigest()[:16]}
    return {**desired, "metadata": {**metadata, "annotations": annotations}}


def unstamp(desired: Mapping[str, Any]) -> dict[str, Any]:
    """What `stamp` was given."""
    metadata = dict(desired["metadata"])
    annotations = {key: value for key, value in metadata.pop("annotations").items() if key != DESIRED_HASH}
    return {**desired, "metadata": {**metadata, **({"annotations": annotations} if annotations else {})}}


def differs(desired: Mapping[str, Any], live: Mapping[str, Any] | None) -> bool:
    return live is None or not is_subset(desired, live)


def is_subset(desired: Any, live: Any, field: str = "", parent: str = "") -> bool:
    """Whether everything that we set is in the live value; the API server may drop what is empty."""
    if not desired and live is None:
        return True
    if field in ATOMIC:
        return bool(desired == live)
    if isinstance(desired, dict):
        return isinstance(live, dict) and all(
            is_subset(value, live.get(key), key, field) for key, value in desired.items()
        )
    if isinstance(desired, list):
        return isinstance(live, list) and _is_sublist(desired, live, field)
    if parent in QUANTITIES or field in QUANTITY_FIELDS:
        return desired == live or same_quantity(desired, live)
    return bool(desired == live)


def _is_sublist(desired: list[Any], live: list[Any], field: str) -> bool:
    """Lists of objects by their merge key, so that another owner may add one; other lists as they are."""
    key = MERGE_KEYS.get(field)
    if key is None or not all(isinstance(entry, dict) and key in entry for entry in (*desired, *live)):
        return len(desired) == len(live) and all(map(is_subset, desired, live))
    by_key = {entry[key]: entry for entry in live}
    return all(is_subset(entry, by_key.get(entry[key])) for entry in desired)
