"""The newest known version of every object that concerns us, so that a settled reconcile asks the API server nothing.

It is fed by watch events, by the answers to our own writes (a reconcile never acts on the state before its last
write), and by the audit: kopf re-lists after a broken watch without a word about objects that have vanished meanwhile,
so whole listings are compared with what is held here.

Two rules keep it right whatever the order of arrival: an object never goes back to an older resource version, and a uid
that was seen to end never returns.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pdserving.api.labels import GROUP_LABEL
from pdserving.kube.kinds import GROUPS, OWNED, PODS, Kind

Manifest = Mapping[str, Any]
REMEMBERED_ENDS: Final = 16384
"""Longer than any answer or listing is under way."""


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """A group."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Id:
    plural: str
    namespace: str
    name: str


class Cache:
    def __init__(self) -> None:
        self._objects: dict[Id, Manifest] = {}
        self._members: dict[Key, set[Id]] = defaultdict(set)
        self._ended: OrderedDict[str, None] = OrderedDict()

    def put(self, kind: Kind, manifest: Manifest) -> set[Key]:
        """Take in a version of an object; the groups that it changes something for."""
        id_, metadata = _identify(kind, manifest), manifest["metadata"]
        known = self._objects.get(id_)
        if metadata["uid"] in self._ended or (known and _version(known) >= _version(manifest)):
            return set()
        self._objects[id_] = _trim(manifest)
        before, now = known and _find_key(kind, known), _find_key(kind, manifest)
        if known and known["metadata"]["uid"] != metadata["uid"]:
            self._end(known)
        if before and before != now:
            self._forget(before, id_)
        if now:
            self._members[now].add(id_)
        return {key for key in (before, now) if key}

    def remove(self, kind: Kind, manifest: Manifest) -> set[Key]:
        """The object with this uid has ended."""
        self._end(manifest)
        id_ = _identify(kind, manifest)
        known = self._objects.get(id_)
        if known is None or known["metadata"]["uid"] != manifest["metadata"]["uid"]:
            return set()
        return self._drop(kind, id_, known)

    def replace(self, kind: Kind, namespace: str | None, version: str, items: Iterable[Manifest]) -> set[Key]:
        """Compare with a whole listing, of one namespace or of all; the groups that were wrong here."""
        changed: set[Key] = set()
        listed = set()
        for manifest in items:
            listed.add(manifest["metadata"]["uid"])
            changed |= self.put(kind, manifest)
        for id_, known in list(self._objects.items()):
            if id_.plural != kind.plural or (namespace and id_.namespace != namespace):
                continue
            if known["metadata"]["uid"] not in listed and _version(known) <= int(version):
                self._end(known)
                changed |= self._drop(kind, id_, known)
        return changed

    def keys(self) -> list[Key]:
        return [Key(id_.namespace, id_.name) for id_ in self._objects if id_.plural == GROUPS.plural]

    def groups(self) -> Iterator[Manifest]:
        return (manifest for id_, manifest in self._objects.items() if id_.plural == GROUPS.plural)

    def group(self, key: Key) -> Manifest | None:
        return self._objects.get(Id(GROUPS.plural, key.namespace, key.name))

    def owned(self, key: Key, uid: str) -> tuple[Manifest, ...]:
        """Objects that the group with this uid controls, without what an earlier one of the same name has left."""
        plurals = {kind.plural for kind in OWNED}
        return tuple(m for id_, m in self._members_of(key) if id_.plural in plurals and find_controller(m) == uid)

    def pods(self, key: Key) -> tuple[Manifest, ...]:
        return tuple(manifest for id_, manifest in self._members_of(key) if id_.plural == PODS.plural)

    def __len__(self) -> int:
        return len(self._objects)

    def _members_of(self, key: Key) -> Iterator[tuple[Id, Manifest]]:
        """In a fixed order, so that equal states give equal plans."""
        members = sorted(self._members.get(key, ()), key=lambda id_: (id_.plural, id_.name))
        return ((id_, self._objects[id_]) for id_ in members)

    def _drop(self, kind: Kind, id_: Id, known: Manifest) -> set[Key]:
        del self._objects[id_]
        key = _find_key(kind, known)
        if key:
            self._forget(key, id_)
        return {key} if key else set()

    def _forget(self, key: Key, id_: Id) -> None:
        self._members[key].discard(id_)
        if not self._members[key]:
            del self._members[key]

    def _end(self, manifest: Manifest) -> None:
        self._ended[manifest["metadata"]["uid"]] = None
        if len(self._ended) > REMEMBERED_ENDS:
            self._ended.popitem(last=False)


def find_controller(manifest: Manifest) -> str | None:
    """The uid of the controlling owner."""
    owners = manifest["metadata"].get("ownerReferences") or ()
    return next((owner.get("uid") for owner in owners if owner.get("controller")), None)


def _find_key(kind: Kind, manifest: Manifest) -> Key | None:
    metadata = manifest["metadata"]
    name = metadata["name"] if kind == GROUPS else (metadata.get("labels") or {}).get(GROUP_LABEL)
    return Key(metadata["namespace"], name) if name else None


def _identify(kind: Kind, manifest: Manifest) -> Id:
    return Id(kind.plural, manifest["metadata"]["namespace"], manifest["metadata"]["name"])


def _version(manifest: Manifest) -> int:
    """Versions of one cluster are comparable numbers (declared so since Kubernetes 1.35, always true of etcd)."""
    return int(manifest["metadata"]["resourceVersion"])


def _trim(manifest: Manifest) -> Manifest:
    """Without managedFields: half of an object's size, and nothing here reads them."""
    metadata = {key: value for key, value in manifest["metadata"].items() if key != "managedFields"}
    return {**manifest, "metadata": metadata}
