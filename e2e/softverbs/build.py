"""Builds the library, and its check, in the cache: keyed by the sources, so that a second build takes no time.

A C compiler and the header of libibverbs are all it needs; what it makes needs neither.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from e2e.cluster import cache, console, paths

HERE: Final = Path(__file__).parent
SOURCES: Final = HERE / "src"
CHECK: Final = HERE / "check" / "verbs_check.c"
LIBRARY: Final = "libibverbs.so.1"
HEADER: Final = Path("/usr/include/infiniband/verbs.h")

WARNINGS: Final = ("-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Wpedantic", "-Werror")
SANITIZERS: Final = {"none": (), "address": ("-fsanitize=address,undefined",), "thread": ("-fsanitize=thread",)}


def library() -> Path:
    """The stripped library, ready to be preloaded or to go into a ConfigMap."""
    return _folder("none") / LIBRARY


def check(sanitizer: str = "none") -> None:
    """Run the check of the double's promises; raises if one is broken."""
    folder = _folder(sanitizer)
    with tempfile.TemporaryDirectory() as scratch:
        config = Path(scratch) / "devices.conf"
        config.write_text("[mlx5_0]\naddr = 127.0.0.1\n")
        environ = {**os.environ, "SOFTVERBS_CONFIG": str(config), "SOFTVERBS_TREE": str(Path(scratch) / "tree")}
        subprocess.run([folder / "verbs_check"], env=environ, check=True)


def _folder(sanitizer: str) -> Path:
    key = cache.content_key([SOURCES, CHECK, Path(__file__)])
    return cache.ensure(paths.CACHE / "softverbs" / f"{key}-{sanitizer}", lambda folder: _build(folder, sanitizer))


def _build(folder: Path, sanitizer: str) -> None:
    _require_tools()
    console.say(f"compiling softverbs ({sanitizer} sanitizer)")
    flags = [*WARNINGS, "-O2", "-g", "-pthread", *SANITIZERS[sanitizer]]
    exports = f"-Wl,-soname,{LIBRARY},--version-script={SOURCES / 'exports.map'}"
    sources = sorted(SOURCES.glob("*.c"))
    _compile(folder, [*flags, "-fPIC", "-fvisibility=hidden", "-shared", exports, *sources, "-ldl"], LIBRARY)
    _compile(folder, [*flags, CHECK, folder / LIBRARY, "-Wl,-rpath,$ORIGIN"], "verbs_check")
    if sanitizer == "none":
        subprocess.run(["strip", "--strip-unneeded", folder / LIBRARY], check=True)


def _compile(folder: Path, arguments: list[str | Path], output: str) -> None:
    subprocess.run([os.environ.get("CC", "cc"), *arguments, "-o", folder / output], check=True)


def _require_tools() -> None:
    if shutil.which(os.environ.get("CC", "cc")) and HEADER.exists():
        return
    if os.geteuid() == 0 and shutil.which("apt-get"):
        console.say("installing gcc and libibverbs-dev with apt-get")
        install = ["apt-get", "install", "-yq", "--no-install-recommends", "gcc", "libc6-dev", "libibverbs-dev"]
        subprocess.run(install, check=True, stdout=subprocess.DEVNULL)
        return
    raise SystemExit("softverbs needs a C compiler and <infiniband/verbs.h>: install gcc and libibverbs-dev")
