"""``spec.model``: which weights the engines serve, where they come from and under which name."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from pdserving.api.v1alpha1.base import Image, Model, ObjectName, rule, rules

PullPolicy = Literal["Always", "IfNotPresent", "Never"]
AbsolutePath = Annotated[str, Field(min_length=2, max_length=1024, pattern=r"^/[^\s]*$")]
RelativePath = Annotated[str, Field(max_length=1024, pattern=r"^([^/\s][^\s]*)?$")]


class SecretKey(Model):
    name: ObjectName
    """Name of a Secret in the group's namespace."""
    key: Annotated[str, Field(min_length=1, max_length=253)] = "token"
    """Key in that Secret."""


class HuggingFaceSource(Model):
    repo: Annotated[str, Field(min_length=1, max_length=256, pattern=r"^[\w.-]+(/[\w.-]+)?$")]
    """Repository on the Hugging Face Hub, such as Qwen/Qwen3-8B. Each engine pod downloads it into its own volume
    named model-cache; put a PersistentVolumeClaim in that volume's place with the role's template to keep it."""
    revision: Annotated[str, Field(min_length=1, max_length=128, pattern=r"^\S+$")] | None = None
    """Branch, tag or commit. Without it the newest commit is taken at each engine's start, and prefill and decode may
    then hold different weights after an update of the repository: pin it in production."""
    token_secret: SecretKey | None = None
    """Secret that holds an access token, for gated or private repositories."""


class ClaimSource(Model):
    name: ObjectName
    """PersistentVolumeClaim in the group's namespace; mounted read-only in every engine pod, so with more than one
    node it needs an access mode that allows many readers."""
    path: RelativePath = ""
    """Folder of the model inside the volume; the volume's root by default."""


class ImageSource(Model):
    reference: Image
    """OCI image or artifact whose content is mounted read-only as a volume (Kubernetes image volumes)."""
    path: RelativePath = ""
    """Folder of the model inside the image; its root by default."""
    pull_policy: PullPolicy = "IfNotPresent"
    """When the kubelet pulls the reference."""


class HostPathSource(Model):
    path: AbsolutePath
    """Folder of the model on every node that may run an engine. Pod Security baseline and restricted forbid it."""


class InImageSource(Model):
    path: AbsolutePath
    """Folder of the model inside the engine image."""


class ModelSource(Model):
    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "[has(self.huggingFace), has(self.persistentVolumeClaim), has(self.image), has(self.hostPath), "
                "has(self.inImage)].filter(x, x).size() == 1",
                "set exactly one of huggingFace, persistentVolumeClaim, image, hostPath and inImage",
            )
        )
    )

    hugging_face: HuggingFaceSource | None = None
    """Download from the Hugging Face Hub when an engine starts."""
    persistent_volume_claim: ClaimSource | None = None
    """Read from a volume."""
    image: ImageSource | None = None
    """Read from an OCI image that is mounted as a volume."""
    host_path: HostPathSource | None = None
    """Read from a folder of the node."""
    in_image: InImageSource | None = None
    """Read from a folder of the engine image."""


class ModelSpec(Model):
    source: ModelSource
    """Where the weights come from: exactly one source."""
    served_name: Annotated[str, Field(min_length=1, max_length=256, pattern=r"^\S+$")] | None = None
    """Name that clients send as `model`, equal on prefill and decode. By default the repository's name with
    huggingFace, and the group's name with every other source."""
