"""One preflight from the environment to the exit code."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from pdserving.preflight.checks.verdicts import warned
from pdserving.preflight.judge import judge
from pdserving.preflight.observe import Attempts, observe
from pdserving.preflight.result import Result, format_table, to_json, to_message
from pdserving.preflight.wanted import MisconfiguredError, Mode, Wanted, parse_wanted

EXIT_PASSED, EXIT_FAILED, EXIT_MISCONFIGURED = 0, 1, 2


def examine(wanted: Wanted, *, root: Path = Path("/"), attempts: Attempts | None = None) -> Result:
    """A defect of the check itself is a warning: it must not keep a healthy engine from starting."""
    try:
        return judge(observe(wanted, root=root, attempts=attempts), wanted)
    except Exception as error:  # noqa: BLE001 - reported, with the engine allowed to go on
        remedy = "report this as a bug of pdserving, with the output of `pdserving preflight --json`"
        return Result((warned("preflight", f"could not finish: {error!r}", remedy=remedy),))


def run(
    environ: Mapping[str, str] = os.environ,
    *,
    root: Path = Path("/"),
    json: bool = False,
    termination_log: Path | None = None,
    attempts: Attempts | None = None,
) -> int:
    """Print the answer, leave it for the kubelet, and say by the exit code whether the engine may start.

    0: passed, or mode `warn`. 1: a check failed in mode `enforce`. 2: the request itself makes no sense.
    """
    try:
        wanted = parse_wanted(environ)
    except MisconfiguredError as error:
        print(f"pdserving preflight: {error}", file=sys.stderr)  # noqa: T201
        return EXIT_MISCONFIGURED
    result = examine(wanted, root=root, attempts=attempts)
    print(to_json(result) if json else format_table(result))  # noqa: T201
    if termination_log:
        _leave_message(termination_log, to_message(result))
    return EXIT_PASSED if result.passed or wanted.mode is Mode.WARN else EXIT_FAILED


def _leave_message(path: Path, message: str) -> None:
    """A file that cannot be written costs the operator the reason, not the engine its start."""
    try:
        path.write_text(message)
    except OSError as error:
        print(f"pdserving preflight: {path}: {error.strerror}", file=sys.stderr)  # noqa: T201
