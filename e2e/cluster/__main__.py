"""The cluster's command line.

python -m e2e.cluster up [--nodes N] [--bare]   start it, or find it running; with the images unless --bare
python -m e2e.cluster down                      end it and leave nothing but the cache
python -m e2e.cluster status                    what runs; exit code 1 if it is not sound
python -m e2e.cluster load IMAGE…               build and load `pdserving` or `engine-cpu`, or load an archive
python -m e2e.cluster shell [COMMAND…]          kubectl and helm ready
python -m e2e.cluster build [--only WHAT]       make programs and images, start nothing
"""

import argparse
import os
import sys
from pathlib import Path

from e2e.cluster import binaries, console, images, lifecycle, paths, versions
from e2e.cluster.node import Node
from e2e.cluster.shell import ClusterError

WHAT = ("binaries", *images.IMAGES)


def main() -> int:
    arguments = _parser().parse_args()
    try:
        return int(arguments.run(arguments) or 0)
    except ClusterError as error:
        console.say(f"error: {error}")
    except KeyboardInterrupt:
        console.say("interrupted; run the same command again to go on")
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m e2e.cluster", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    up = commands.add_parser("up")
    up.add_argument("--nodes", type=int, help="default: what runs, or 1")
    up.add_argument("--bare", action="store_true", help="build and load no images")
    up.set_defaults(run=_up)
    commands.add_parser("down").set_defaults(run=lambda _: lifecycle.down())
    commands.add_parser("status").set_defaults(run=lambda _: _status())
    load = commands.add_parser("load")
    load.add_argument("images", nargs="+", metavar="IMAGE")
    load.set_defaults(run=_load)
    shell = commands.add_parser("shell")
    shell.add_argument("command", nargs=argparse.REMAINDER)
    shell.set_defaults(run=_shell)
    build = commands.add_parser("build")
    build.add_argument("--only", choices=WHAT, action="append")
    build.set_defaults(run=_build)
    return parser


def _up(arguments: argparse.Namespace) -> None:
    _need_root()
    lifecycle.up(arguments.nodes)
    if not arguments.bare:
        for image in images.IMAGES.values():
            images.load(lifecycle.nodes(), image)
    console.say(f"kubeconfig: {paths.KUBECONFIG}   kubectl, helm: {paths.BIN}   or: make cluster-shell")


def _status() -> int:
    if not lifecycle.RECORD.exists():
        console.say("no cluster is up")
        return 1
    for node in lifecycle.nodes():
        for name, runs in node.components().items():
            print(f"{node.plan.name}  {name:<24} {'runs' if runs else 'DEAD'}")
    fault = lifecycle.fault()
    print(f"Kubernetes {versions.KUBERNETES}: {fault or 'sound'}")
    print(
        f"KUBECONFIG={paths.KUBECONFIG}\nprograms   {paths.BIN}\nlogs       {paths.LOGS}\naudit log  {paths.AUDIT_LOG}"
    )
    return 1 if fault else 0


def _load(arguments: argparse.Namespace) -> None:
    found = _running()
    for name in arguments.images:
        if name in images.IMAGES:
            images.load(found, images.IMAGES[name])
        else:
            images.load_file(found, Path(name))


def _shell(arguments: argparse.Namespace) -> None:
    _running()
    env = os.environ | {"KUBECONFIG": str(paths.KUBECONFIG), "PATH": f"{paths.BIN}:{os.environ['PATH']}"}
    env |= paths.CLIENT_CACHE
    command = arguments.command or [os.environ.get("SHELL", "/bin/sh")]
    if not arguments.command:
        console.say("kubectl and helm speak to the cluster here; leave with exit")
    os.execvpe(command[0], command, env)


def _build(arguments: argparse.Namespace) -> None:
    wanted = arguments.only or WHAT
    if "binaries" in wanted:
        binaries.ensure()
        print(paths.BIN)
    for image in (images.IMAGES[name] for name in wanted if name in images.IMAGES):
        print(images.ensure(image))


def _running() -> list[Node]:
    if not lifecycle.RECORD.exists():
        raise ClusterError("no cluster is up; start it with `make cluster-up`")
    return lifecycle.nodes()


def _need_root() -> None:
    if os.geteuid():
        raise ClusterError("the cluster makes namespaces, interfaces and mounts: run this as root")


if __name__ == "__main__":
    sys.exit(main())
