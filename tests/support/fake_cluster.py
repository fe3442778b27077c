"""An API server in memory, behind the same verbs as the real client.

Server-side apply is imitated as far as the operator relies on it: fields that we stop applying go, fields of others
stay, and an apply that changes nothing makes no new version.
`broken` says which requests fail; `requests` keeps what was asked.
"""

import copy
from collections.abc import Callable, Mapping
from typing import Any

from pdserving.core.actions import ObjectRef
from pdserving.kube.client import Listing
from pdserving.kube.errors import ConflictError, KubeError, NotFoundError
from pdserving.kube.kinds import GROUPS, Kind, find_kind, kind_of

Manifest = dict[str, Any]
Id = tuple[str, str, str]
Watcher = Callable[[str, Kind, Manifest], object]


class FakeCluster:
    def __init__(self) -> None:
        self.objects: dict[Id, Manifest] = {}
        self.requests: list[str] = []
        self.logs: dict[str, str] = {}
        self.broken: Callable[[str, str, str], KubeError | None] = lambda _verb, _kind, _name: None
        self.watcher: Watcher = lambda _type, _kind, _manifest: None
        self._applied: dict[Id, Manifest] = {}
        self._version = 0

    @property
    def writes(self) -> list[str]:
        return [request for request in self.requests if not request.startswith(("list", "log", "dry-run"))]

    def create(self, manifest: Mapping[str, Any]) -> Manifest:
        """By somebody else."""
        return self._store(copy.deepcopy(dict(manifest)), "ADDED")

    def edit(self, kind: Kind, namespace: str, name: str, change: Callable[[Manifest], object]) -> Manifest:
        """By somebody else, who owns what he changed from then on."""
        edited = copy.deepcopy(self.objects[kind.plural, namespace, name])
        change(edited)
        return self._store(edited, "MODIFIED")

    def end(self, kind: Kind, namespace: str, name: str) -> Manifest:
        """By somebody else."""
        ended = self.objects.pop((kind.plural, namespace, name))
        self._applied.pop((kind.plural, namespace, name), None)
        ended = {**ended, "metadata": {**ended["metadata"], "resourceVersion": self._next()}}
        self.watcher("DELETED", kind, ended)
        return ended

    async def list(self, kind: Kind, namespace: str | None, *, labels: str = "", fields: str = "") -> Listing:
        self._answer("list", kind.kind, "")
        selected = dict(part.split("=", 1) for part in labels.split(",") if part)
        name = fields.removeprefix("metadata.name=") if fields.startswith("metadata.name=") else None
        found = tuple(
            copy.deepcopy(manifest)
            for (plural, where, called), manifest in self.objects.items()
            if plural == kind.plural
            and namespace in (None, where)
            and name in (None, called)
            and selected.items() <= manifest["metadata"].get("labels", {}).items()
        )
        return Listing(str(self._version), found)

    async def apply(self, manifest: Manifest, *, only_new: bool = False, dry_run: bool = False) -> Manifest:
        kind, id_ = kind_of(manifest), _id(manifest)
        self._answer("dry-run" if dry_run else "apply", kind.kind, manifest["metadata"]["name"])
        live, before = self.objects.get(id_), self._applied.get(id_, {})
        if live is not None and only_new:
            raise ConflictError("the object has been modified", reason="Conflict", status=409)
        merged = _merge(_without(live or {}, before, manifest), manifest)
        if dry_run:
            return merged
        self._applied[id_] = copy.deepcopy(manifest)
        if live is not None and _contents(merged) == _contents(live):
            return copy.deepcopy(live)
        return self._store(merged, "MODIFIED" if live else "ADDED")

    async def patch_status(self, namespace: str, name: str, uid: str, status: Mapping[str, Any]) -> Manifest:
        self._answer("patch", GROUPS.kind, name)
        group = self.objects.get((GROUPS.plural, namespace, name))
        if group is None:
            raise NotFoundError("not found", reason="NotFound", status=404)
        if group["metadata"]["uid"] != uid:
            raise ConflictError("the uid differs", reason="Conflict", status=409)
        return self._store({**group, "status": _merge_patch(group.get("status", {}), status)}, "MODIFIED")

    async def delete(self, ref: ObjectRef) -> None:
        self._answer("delete", ref.kind, ref.name)
        kind = find_kind(ref.api_version, ref.kind)
        live = self.objects.get((kind.plural, ref.namespace, ref.name))
        if live is None:
            raise NotFoundError("not found", reason="NotFound", status=404)
        if (live["metadata"]["uid"], live["metadata"]["resourceVersion"]) != (ref.uid, ref.resource_version):
            raise ConflictError("a precondition failed", reason="Conflict", status=409)
        self.end(kind, ref.namespace, ref.name)

    async def read_log(self, namespace: str, pod: str, container: str, *, previous: bool, lines: int) -> str:
        self._answer("log", "Pod", f"{namespace}/{pod}/{container} previous={previous} lines={lines}")
        return self.logs.get(pod, "")

    def _answer(self, verb: str, kind: str, name: str) -> None:
        self.requests.append(f"{verb} {kind} {name}".strip())
        error = self.broken(verb, kind, name)
        if error:
            raise error

    def _store(self, manifest: Manifest, happened: str) -> Manifest:
        metadata = manifest["metadata"]
        metadata.setdefault("uid", f"uid-{self._version + 1}")
        metadata["resourceVersion"] = self._next()
        self.objects[_id(manifest)] = manifest
        self.watcher(happened, kind_of(manifest), copy.deepcopy(manifest))
        return copy.deepcopy(manifest)

    def _next(self) -> str:
        self._version += 1
        return str(self._version)


def _id(manifest: Mapping[str, Any]) -> Id:
    return kind_of(manifest).plural, manifest["metadata"]["namespace"], manifest["metadata"]["name"]


def _contents(manifest: Manifest) -> Manifest:
    metadata = {k: v for k, v in manifest["metadata"].items() if k != "resourceVersion"}
    return {**manifest, "metadata": metadata}


def _without(live: Manifest, before: Manifest, wanted: Manifest) -> Manifest:
    """Live without the fields that we applied before and no longer want."""
    kept = {}
    for key, value in live.items():
        if isinstance(value, dict) and isinstance(before.get(key), dict):
            kept[key] = _without(value, before[key], wanted.get(key, {}))
        elif key in wanted or key not in before:
            kept[key] = value
    return kept


def _merge(live: Manifest, wanted: Manifest) -> Manifest:
    merged = copy.deepcopy(live)
    for key, value in wanted.items():
        nested = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merge(merged[key], value) if nested else copy.deepcopy(value)
    return merged


def _merge_patch(before: Mapping[str, Any], patch: Mapping[str, Any]) -> Manifest:
    merged = {key: value for key, value in before.items() if patch.get(key, value) is not None}
    for key, value in patch.items():
        if isinstance(value, Mapping):
            merged[key] = _merge_patch(merged.get(key) or {}, value)
        elif value is not None:
            merged[key] = value
    return merged
