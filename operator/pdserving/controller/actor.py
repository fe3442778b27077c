"""Act on a plan: apply and delete, object by object; what fails is reported and stops no other object.

An object that is not known as ours may only be created: a Service or ServiceAccount of somebody else that has the name
by chance must not become part of the group, and end with it.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pdserving.api.labels import GROUP_LABEL
from pdserving.controller.cache import find_controller
from pdserving.core.actions import ApplyFailure, ObjectRef, Plan
from pdserving.kube.client import Kube, Manifest
from pdserving.kube.errors import ConflictError, KubeError, NotFoundError, UnreachableError
from pdserving.kube.kinds import Kind, kind_of

OnAnswer = Callable[[Kind, Mapping[str, Any]], bool]
"""Told of each written object; whether that was news."""
Names = frozenset[tuple[str, str]]
Step = Callable[[], Awaitable[bool]]


@dataclass(frozen=True, slots=True)
class Outcome:
    changed: int = 0
    """Writes that changed something."""
    failures: tuple[ApplyFailure, ...] = ()


class Actor:
    def __init__(self, client: Kube, on_answer: OnAnswer) -> None:
        self._client = client
        self._on_answer = on_answer

    async def act(self, plan: Plan, owned: Sequence[Mapping[str, Any]]) -> Outcome:
        """Nothing is written if one of the plan's trials is refused."""
        ours = frozenset((live["kind"], live["metadata"]["name"]) for live in owned)
        trial = await _run((ObjectRef.of(m), partial(self._try, m, ours)) for m in plan.dry_run)
        if trial.failures:
            return trial
        return await _run(
            [
                *((ObjectRef.of(m), partial(self._apply, m, ours)) for m in plan.apply),
                *((ref, partial(self._delete, ref)) for ref in plan.delete),
            ]
        )

    async def _try(self, manifest: Manifest, ours: Names) -> bool:
        await self._send(manifest, ours, dry_run=True)
        return False

    async def _apply(self, manifest: Manifest, ours: Names) -> bool:
        return self._on_answer(kind_of(manifest), await self._send(manifest, ours))

    async def _send(self, manifest: Manifest, ours: Names, *, dry_run: bool = False) -> Manifest:
        if (manifest["kind"], manifest["metadata"]["name"]) not in ours:
            try:
                return await self._client.apply(manifest, only_new=True, dry_run=dry_run)
            except ConflictError as conflict:
                if not await self._is_ours(manifest):
                    text = "exists already and is not part of this group; delete it, or give the group another name"
                    raise ConflictError(text, reason="AlreadyExists", status=409) from conflict
        return await self._client.apply(manifest, dry_run=dry_run)

    async def _is_ours(self, manifest: Manifest) -> bool:
        """Looked up by name: it may have lost the label by which we watch, or its owner in a restored backup."""
        metadata = manifest["metadata"]
        query = f"metadata.name={metadata['name']}"
        found = await self._client.list(kind_of(manifest), metadata["namespace"], fields=query)
        return all(_may_take(live, manifest) for live in found.items)

    async def _delete(self, ref: ObjectRef) -> bool:
        try:
            await self._client.delete(ref)
        except NotFoundError:
            return False
        return True


async def _run(steps: Iterable[tuple[ObjectRef, Step]]) -> Outcome:
    changed = 0
    failures: list[ApplyFailure] = []
    for ref, step in steps:
        try:
            changed += await step()
        except KubeError as error:
            failures.append(ApplyFailure(ref, error.reason, error.message))
            if isinstance(error, UnreachableError):
                break  # the others would only wait for their deadlines
    return Outcome(changed, tuple(failures))


def _may_take(live: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """What our group controls, or what carries its label and nobody controls."""
    if find_controller(live):
        return find_controller(live) == find_controller(wanted)
    labels = live["metadata"].get("labels") or {}
    return bool(labels.get(GROUP_LABEL) == wanted["metadata"]["labels"][GROUP_LABEL])
