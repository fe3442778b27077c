"""The newest known version of every object that concerns us, so that a settled reconcile asks the API server nothing.

It is fed by watch events, by the answers to our own writes (a reconcile never acts on the state before its last
write), and by the audit: kopf re-lists after a broken watch without a word about objects that have vanished meanwhile,
so whole listings are compared with what is held here.

Two rules keep it right whatever the order of arrival: an object never goes back to an older resource version, and a uid
that was seen to end never returns.

Objects are held as JSON and parsed for a look: as dicts they would take several times the memory between looks.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

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


@dataclass(frozen=True, slots=True)
class _Entry:
    """An object, and of it what decides without parsing it."""

    uid: str
    version: int
    key: Key | None
    controller: str | None
    text: bytes

    def parse(self) -> Manifest:
        parsed: dict[str, Any] = msgspec.json.decode(self.text)
        return parsed


class Cache:
    def __init__(self) -> None:
        self._entries: dict[Id, _Entry] = {}
        self._members: dict[Key, set[Id]] = defaultdict(set)
        self._ended: OrderedDict[str, None] = OrderedDict()

    def put(self, kind: Kind, manifest: Manifest) -> set[Key]:
        """Take in a version of an object; the groups that it changes something for."""
        id_, metadata = _identify(kind, manifest), manifest["metadata"]
        known = self._entries.get(id_)
        # Versions of one cluster are comparable numbers (declared so since Kubernetes 1.35, always true of etcd).
        if metadata["uid"] in self._ended or (known and known.version >= int(metadata["resourceVersion"])):
            return set()
        entry = self._entries[id_] = _make_entry(kind, manifest)
        if known and known.uid != entry.uid:
            self._end(known.uid)
        if known and known.key and known.key != entry.key:
            self._forget(known.key, id_)
        if entry.key:
            self._members[entry.key].add(id_)
        return {key for key in (known and known.key, entry.key) if key}

    def remove(self, kind: Kind, manifest: Manifest) -> set[Key]:
        """The object with this uid has ended."""
        id_, uid = _identify(kind, manifest), manifest["metadata"]["uid"]
        self._end(uid)
        known = self._entries.get(id_)
        return self._drop(id_, known) if known and known.uid == uid else set()

    def replace(self, kind: Kind, namespace: str | None, version: str, items: Iterable[Manifest]) -> set[Key]:
        """Compare with a whole listing, of one namespace or of all; the groups that were wrong here."""
        changed: set[Key] = set()
        listed = set()
        for manifest in items:
            listed.add(manifest["metadata"]["uid"])
            changed |= self.put(kind, manifest)
        for id_, known in list(self._entries.items()):
            if id_.plural != kind.plural or (namespace and id_.namespace != namespace):
                continue
            if known.uid not in listed and known.version <= int(version):
                self._end(known.uid)
                changed |= self._drop(id_, known)
        return changed

    def keys(self) -> list[Key]:
        return [Key(id_.namespace, id_.name) for id_ in self._entries if id_.plural == GROUPS.plural]

    def groups(self) -> Iterator[Manifest]:
        return (entry.parse() for id_, entry in self._entries.items() if id_.plural == GROUPS.plural)

    def group(self, key: Key) -> Manifest | None:
        entry = self._entries.get(Id(GROUPS.plural, key.namespace, key.name))
        return entry.parse() if entry else None

    def owned(self, key: Key, uid: str) -> tuple[Manifest, ...]:
        """Objects that the group with this uid controls, without what an earlier one of the same name has left."""
        return tuple(
            entry.parse() for id_, entry in self._members_of(key) if id_.plural in _OWNED and entry.controller == uid
        )

    def pods(self, key: Key) -> tuple[Manifest, ...]:
        return tuple(entry.parse() for id_, entry in self._members_of(key) if id_.plural == PODS.plural)

    def __len__(self) -> int:
        return len(self._entries)

    def _members_of(self, key: Key) -> Iterator[tuple[Id, _Entry]]:
        """In a fixed order, so that equal states give equal plans."""
        members = sorted(self._members.get(key, ()), key=lambda id_: (id_.plural, id_.name))
        return ((id_, self._entries[id_]) for id_ in members)

    def _drop(self, id_: Id, known: _Entry) -> set[Key]:
        del self._entries[id_]
        if known.key is None:
            return set()
        self._forget(known.key, id_)
        return {known.key}

    def _forget(self, key: Key, id_: Id) -> None:
        self._members[key].discard(id_)
        if not self._members[key]:
            del self._members[key]

    def _end(self, uid: str) -> None:
        self._ended[uid] = None
        if len(self._ended) > REMEMBERED_ENDS:
            self._ended.popitem(last=False)


def find_controller(manifest: Manifest) -> str | None:
    """The uid of the controlling owner."""
    owners = manifest["metadata"].get("ownerReferences") or ()
    return next((owner.get("uid") for owner in owners if owner.get("controller")), None)


_OWNED: Final = frozenset(kind.plural for kind in OWNED)


def _make_entry(kind: Kind, manifest: Manifest) -> _Entry:
    """Without managedFields: half of an object's size, and nothing here reads them."""
    metadata = {key: value for key, value in manifest["metadata"].items() if key != "managedFields"}
    return _Entry(
        uid=metadata["uid"],
        version=int(metadata["resourceVersion"]),
        key=_find_key(kind, manifest),
        controller=find_controller(manifest),
        text=msgspec.json.encode({**manifest, "metadata": metadata}),
    )


def _find_key(kind: Kind, manifest: Manifest) -> Key | None:
    metadata = manifest["metadata"]
    name = metadata["name"] if kind == GROUPS else (metadata.get("labels") or {}).get(GROUP_LABEL)
    return Key(metadata["namespace"], name) if name else None


def _identify(kind: Kind, manifest: Manifest) -> Id:
    return Id(kind.plural, manifest["metadata"]["namespace"], manifest["metadata"]["name"])
