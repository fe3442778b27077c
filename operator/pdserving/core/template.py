"""Merge a user's pod template strategically onto ours, and refuse what would change a field that we own.

The rules are those of `kubectl patch --type strategic` for pod templates (objects field by field, lists of objects by
their merge key, null removes, other lists replaced), with one difference: tolerations are appended. Fields newer than
this code pass through untouched.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MERGE_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "env": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "ports": "containerPort",
    "imagePullSecrets": "name",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
    "resourceClaims": "name",
    "schedulingGates": "name",
}
APPENDED = frozenset(("tolerations",))
UNIONS = frozenset(("volumes", "env"))
"""Lists whose objects hold one of several alternatives: a new one replaces ours instead of standing beside it."""
UNION_KEYS = frozenset(("name", "mountPath"))
HANDLERS = frozenset(("exec", "httpGet", "tcpSocket", "grpc", "sleep"))
PROBES = frozenset(("startupProbe", "readinessProbe", "livenessProbe", "preStop", "postStart"))


class TemplateError(ValueError):
    """A template that can't be merged; the message names the field and what to do."""


@dataclass(frozen=True, slots=True)
class Owned:
    """A field of the built template that no user's template may change."""

    path: tuple[str, ...]
    """Keys from the template's root; ``name=value`` picks an object from a list."""
    remedy: str


def merge_template(
    base: Mapping[str, Any], user: Mapping[str, Any] | None, owned: Sequence[Owned], path: str, container: str
) -> dict[str, Any]:
    """The user's template over ours. `path` is the user's field, `container` the name that ours has."""
    if user is None:
        return dict(base)
    for key in user:
        if key not in ("metadata", "spec"):
            raise TemplateError(f"{path}.{key}: a pod template holds metadata and spec, remove {key}")
    _check_containers(user, path, container)
    merged = merge_objects(base, user, path)
    _check_owned(base, merged, owned, path)
    return merged


def _check_containers(user: Mapping[str, Any], path: str, container: str) -> None:
    spec = user.get("spec")
    containers = spec.get("containers") if isinstance(spec, Mapping) else None
    if not isinstance(containers, Sequence) or isinstance(containers, str):
        return
    names = [entry.get("name") for entry in containers if isinstance(entry, Mapping)]
    if container not in names:
        listed = ", ".join(repr(name) for name in names if name) or "no names"
        raise TemplateError(
            f'{path}: no container named "{container}" (found {listed}); '
            f'name the {"vLLM" if container == "engine" else "proxy"} container "{container}"'
        )


def merge_objects(base: Mapping[str, Any], patch: Mapping[str, Any], path: str) -> dict[str, Any]:
    merged = dict(base)
    for key, value in patch.items():
        where = f"{path}.{key}"
        if key.startswith("$"):
            raise TemplateError(f"{where}: merge directives are not supported; null removes a field")
        if value is None:
            merged.pop(key, None)
        elif key in MERGE_KEYS and any(isinstance(side, list) for side in (value, merged.get(key))):
            merged[key] = _merge_lists(merged.get(key, ()), _list(value, where), key, where)
        elif key in APPENDED:
            merged[key] = [*merged.get(key, ()), *_list(value, where)]
        elif isinstance(merged.get(key), Mapping):
            ours = merged[key]
            merged[key] = merge_objects(
                _without_other_handler(ours, value) if key in PROBES else ours, _object(value, where), where
            )
        else:
            merged[key] = value
    return merged


def _without_other_handler(ours: Mapping[str, Any], patch: Any) -> Mapping[str, Any]:
    """A probe has one handler: with a user's exec our httpGet goes."""
    replaced = isinstance(patch, Mapping) and HANDLERS & patch.keys()
    return {key: value for key, value in ours.items() if key not in HANDLERS or key in patch} if replaced else ours


def _merge_lists(
    ours: Sequence[Mapping[str, Any]], patch: Sequence[Any], field: str, path: str
) -> list[dict[str, Any]]:
    merge_key = MERGE_KEYS[field]
    merged = {entry[merge_key]: dict(entry) for entry in ours}
    for index, entry in enumerate(patch):
        where = f"{path}[{index}]"
        identity = _object(entry, where).get(merge_key)
        if not isinstance(identity, str | int):
            raise TemplateError(f"{where}: set {merge_key}")
        current = merged.get(identity, {})
        if field in UNIONS and not entry.keys() <= current.keys() | UNION_KEYS:
            current = {}
        merged[identity] = merge_objects(current, entry, f"{path}[{identity}]")
    return list(merged.values())


def _object(value: Any, path: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TemplateError(f"{path}: expected an object, found {value!r:.60}")
    return value


def _list(value: Any, path: str) -> Sequence[Any]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise TemplateError(f"{path}: expected a list, found {value!r:.60}")
    return value


def _check_owned(base: Mapping[str, Any], merged: Mapping[str, Any], owned: Sequence[Owned], path: str) -> None:
    for field in owned:
        if look_up(base, field.path) != look_up(merged, field.path):
            raise TemplateError(f"{path}.{_show(field.path)}: owned by the operator; {field.remedy}")


def _show(path: tuple[str, ...]) -> str:
    """``spec.containers[engine].image``."""
    return ".".join(step if "=" not in step else f"[{step.partition('=')[2]}]" for step in path).replace(".[", "[")


def look_up(value: Any, path: tuple[str, ...]) -> Any:
    """What stands at the path, None if nothing does."""
    for step in path:
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and "=" in step:
            key, _, wanted = step.partition("=")
            value = next((entry for entry in value if isinstance(entry, dict) and str(entry.get(key)) == wanted), None)
        else:
            return None
    return value
