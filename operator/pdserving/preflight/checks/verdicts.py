"""The ways to end a check, and the choice of HCAs that all of them share."""

from collections.abc import Sequence

from pdserving.preflight.machine import Hca, Machine, Port
from pdserving.preflight.result import Check, Status
from pdserving.preflight.wanted import Wanted


def passed(name: str, value: str) -> Check:
    return Check(name, Status.PASS, value)


def warned(name: str, value: str, *, expected: str = "", remedy: str = "") -> Check:
    return Check(name, Status.WARN, value, expected, remedy)


def failed(name: str, value: str, *, expected: str = "", remedy: str = "") -> Check:
    return Check(name, Status.FAIL, value, expected, remedy)


def skipped(name: str, reason: str) -> Check:
    return Check(name, Status.SKIP, reason)


def graded(
    name: str, good: Sequence[str], bad: Sequence[str], wanted: Wanted, *, expected: str = "", remedy: str = ""
) -> Check:
    """Of HCAs that were asked for by name each must be right; otherwise Mooncake goes on with those that are."""
    if not bad:
        return passed(name, "; ".join(good))
    verdict = failed if wanted.hcas or not good else warned
    return verdict(name, "; ".join([*bad, *good]), expected=expected, remedy=remedy)


def chosen_hcas(machine: Machine, wanted: Wanted) -> list[Hca]:
    """Those that Mooncake will consider: the named ones, or all."""
    return [hca for hca in machine.hcas if not wanted.hcas or hca.name in wanted.hcas]


def usable_hcas(machine: Machine, wanted: Wanted) -> list[Hca]:
    """Those of them that this container can open."""
    return [hca for hca in chosen_hcas(machine, wanted) if hca.granted]


def active_ports(machine: Machine, wanted: Wanted) -> list[tuple[Hca, Port]]:
    ports = ((hca, hca.port(wanted.ib_port)) for hca in usable_hcas(machine, wanted))
    return [(hca, port) for hca, port in ports if port and port.active]
