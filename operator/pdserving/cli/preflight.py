"""``pdserving preflight``: in an engine pod's init container, or by hand on a node.

Every option is a variable that the operator sets in a pod; an option beats its variable.
"""

import argparse
import os
from pathlib import Path
from typing import Final

OPTIONS: Final = (
    ("--mode", "PDSERVING_PREFLIGHT_MODE", "enforce: exit 1 when a check fails; warn: exit 0"),
    ("--protocol", "PDSERVING_PREFLIGHT_PROTOCOL", "rdma or tcp"),
    ("--hcas", "PDSERVING_PREFLIGHT_HCAS", "comma list of HCA names that must work; default: any one"),
    ("--devices", "PDSERVING_PREFLIGHT_DEVICES", "how many HCAs must be usable (SR-IOV, host-device)"),
    ("--gid-index", "PDSERVING_PREFLIGHT_GID_INDEX", "GID index that every HCA must have; default: Mooncake chooses"),
    ("--gpu-direct", "PDSERVING_PREFLIGHT_GPU_DIRECT", "peermem, dmabuf or auto; default: by WITH_NVIDIA_PEERMEM"),
    ("--shm-bytes", "PDSERVING_PREFLIGHT_SHM_BYTES", "least size of /dev/shm"),
    ("--pin-bytes", "PDSERVING_PREFLIGHT_PIN_BYTES", "how much memory to pin as a trial"),
)


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser("preflight", help="check RDMA, memory and addresses of this pod or node")
    for option, variable, text in OPTIONS:
        parser.add_argument(option, dest=variable, metavar="VALUE", help=f"{text} (${variable})")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--termination-log", type=Path, metavar="FILE", help="also write the JSON there, within 4 KiB")
    parser.add_argument("--root", type=Path, default=Path("/"), help="read /sys, /proc and /dev below this folder")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    from pdserving.preflight.run import run  # noqa: PLC0415 - no other subcommand should pay for it

    given = {variable: getattr(args, variable) for _, variable, _ in OPTIONS}
    environ = {**os.environ, **{variable: value for variable, value in given.items() if value is not None}}
    return run(environ, root=args.root, json=args.json, termination_log=args.termination_log)
