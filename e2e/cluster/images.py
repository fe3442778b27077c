"""Build the images of `images/` from the same Dockerfiles as `docker build`, without a registry or a daemon.

`FROM debian:bookworm-slim` is met by a stand-in of that name, made by debootstrap from the Debian mirror. buildah's
store lies in the cache, so that the machine's own containers and images are not touched.
"""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster import cache, console, node_images, packages, paths, versions
from e2e.cluster.node import Node
from e2e.cluster.shell import ClusterError, run

LOG = paths.CACHE / "logs" / "images.log"
BASE = "docker.io/library/debian:bookworm-slim"


@dataclass(frozen=True, slots=True)
class Image:
    """An image of this repository: its Dockerfile, the folder it may copy from, and what decides its content."""

    name: str
    dockerfile: Path
    context: Path
    inputs: tuple[Path, ...]
    about: str
    often: bool = False
    """Whether its source changes all day: its layers are kept then, so that the next build takes seconds."""

    @property
    def tag(self) -> str:
        return f"localhost/{self.name}:dev"

    @property
    def key(self) -> str:
        return cache.content_key(self.inputs)

    def archive(self, key: str) -> Path:
        return paths.CACHE / "images" / f"{self.name}-{key}" / "image.tar"


ENGINE_FOLDER = paths.ROOT / "images" / "engine-cpu"
OPERATOR_INPUTS = ("images/operator", "requirements/operator.txt", "operator/pdserving")

IMAGES = {
    image.name: image
    for image in (
        Image(
            name="pdserving",
            dockerfile=paths.ROOT / "images" / "operator" / "Dockerfile",
            context=paths.ROOT,
            inputs=tuple(paths.ROOT / name for name in OPERATOR_INPUTS),
            about="operator and proxy",
            often=True,
        ),
        Image(
            name="engine-cpu",
            dockerfile=ENGINE_FOLDER / "Dockerfile",
            context=ENGINE_FOLDER,
            inputs=(ENGINE_FOLDER,),
            about="vLLM for CPUs with Mooncake and a tiny model; about 6 minutes on 2 cores",
        ),
    )
}


def ensure(image: Image, key: str | None = None) -> Path:
    """Return the image as a docker archive, built if its content is new; archives of older content are removed."""
    archive = image.archive(key or image.key)
    if not archive.exists():
        packages.ensure(versions.IMAGE_PACKAGES)
        _ensure_base()
        with console.step(f"building {image.tag} ({image.about})"):
            cache.ensure(archive.parent, lambda to: _build(image, to / archive.name))
        _forget_older(image, archive.parent)
    return archive


def load(nodes: list[Node], image: Image) -> None:
    """Build the image if its content is new and bring it into every node that lacks it."""
    key = image.key  # read once: someone may be editing
    lacking = [node for node in nodes if not node_images.has(node, image.tag, key)]
    for node in lacking:
        node_images.load(node, image.tag, key, ensure(image, key))


def load_file(nodes: list[Node], archive: Path) -> None:
    """Bring any image archive into every node."""
    if not archive.exists():
        raise ClusterError(f"load {archive}: neither one of {', '.join(IMAGES)} nor a file")
    for node in nodes:
        node_images.load_archive(node, archive.absolute())


def _build(image: Image, archive: Path) -> None:
    # A private certificate authority or index reaches pip without a trace in the image.
    arguments = ["--volume", f"{versions.CERTIFICATES}:/run/ca.crt:ro", "--build-arg", "PIP_CERT=/run/ca.crt"]
    if index := os.environ.get("PIP_INDEX_URL"):
        arguments += ["--build-arg", f"PIP_INDEX_URL={index}"]
    ignore = image.dockerfile.with_name("Dockerfile.dockerignore")
    if ignore.exists():
        arguments += ["--ignorefile", str(ignore)]
    build = ("bud", "--isolation", "chroot", "--pull-never", f"--layers={str(image.often).lower()}", *arguments)
    with cache.lock(f"build-{image.name}"):  # another content of the same image would take the tag in between
        _buildah(*build, "--tag", image.tag, "--file", image.dockerfile, image.context)
        _buildah("push", "--quiet", image.tag, f"docker-archive:{archive}:{image.tag}")
        if not image.often:
            _buildah("rmi", "--force", image.tag)


def _forget_older(image: Image, newest: Path) -> None:
    for folder in newest.parent.glob(f"{image.name}-*"):
        if folder != newest and not folder.name.endswith(".partial"):
            shutil.rmtree(folder, ignore_errors=True)  # another run may do the same


def _ensure_base() -> None:
    with cache.lock("base-image"):
        if BASE not in _buildah("images", "--format", "{{.Name}}:{{.Tag}}", log=None):
            with console.step("making a Debian base image with debootstrap (about a minute)"):
                _with_scratch(_make_base)


def _make_base(scratch: Path) -> None:
    tree, layer = scratch / "root", scratch / "root.tar"
    run("debootstrap", "--variant=minbase", "--include=ca-certificates", "bookworm", tree, log=LOG)
    kept_out = ("./var/cache/apt/archives/*.deb", "./var/lib/apt/lists/*")
    run("tar", "-C", tree, "-cf", layer, *(f"--exclude={pattern}" for pattern in kept_out), ".", log=LOG)
    container = _buildah("from", "scratch", log=None).split()[-1]
    _buildah("add", "--quiet", container, layer, "/")
    _buildah("config", "--cmd", "bash", container)
    _buildah("commit", "--quiet", "--rm", container, BASE)


def _with_scratch(use: Callable[[Path], None]) -> None:
    scratch = paths.CACHE / "scratch"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    use(scratch)
    shutil.rmtree(scratch)


def _buildah(*args: object, log: Path | None = LOG) -> str:
    store = ("--root", paths.CACHE / "containers", "--runroot", paths.CACHE / "containers-run")
    return run("buildah", *store, *args, log=log)
