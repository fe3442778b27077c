"""``pdserving <command>``: each command is a module beside this one, imported only when it is asked for.

An engine's init container runs ``pdserving preflight`` and must not pay for kopf or pydantic.
"""

import argparse
import importlib
import sys
from collections.abc import Sequence
from typing import Final

from pdserving import __version__

COMMANDS: Final = ("operator", "proxy", "preflight", "crd")


def build_parser(commands: Sequence[str] = COMMANDS) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pdserving", description="Disaggregated prefill/decode serving on Kubernetes."
    )
    parser.add_argument("--version", action="version", version=__version__)
    subparsers = parser.add_subparsers(metavar="command", required=True)
    for command in commands:
        importlib.import_module(f"pdserving.cli.{command}").register(subparsers)
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    given = sys.argv[1:] if argv is None else list(argv)
    asked = given[:1] if given and given[0] in COMMANDS else COMMANDS
    args = build_parser(asked).parse_args(given)
    sys.exit(args.run(args))
