"""Has every port an address that the fabric can route? On RoCE this is where most installations go wrong."""

from typing import Final

from pdserving.preflight.checks.links import NO_PORT
from pdserving.preflight.checks.verdicts import active_ports, graded, passed, skipped, warned
from pdserving.preflight.machine import ETHERNET, ROCE_V2, Gid, Hca, Machine, Port
from pdserving.preflight.result import Check
from pdserving.preflight.wanted import Wanted

GID: Final = "gid"
SHOWN: Final = 6


def check_gid(machine: Machine, wanted: Wanted) -> Check:
    """A fixed index holds for every HCA of the pod; left alone, Mooncake takes RoCE v2 (or IB) and a routable one."""
    ports = active_ports(machine, wanted)
    if not ports:
        return skipped(GID, NO_PORT)
    if wanted.gid_index is not None:
        return _check_index(ports, wanted, wanted.gid_index)
    return _check_automatic(ports, wanted)


def _check_index(ports: list[tuple[Hca, Port]], wanted: Wanted, index: int) -> Check:
    good: list[str] = []
    bad: list[str] = []
    for hca, port in ports:
        gid = next((gid for gid in port.gids if gid.index == index), None)
        if gid and _suits(port, gid):
            good.append(f"{hca.name} {gid}")
        else:
            bad.append(f"{hca.name} {gid or f'{index}=empty'}; its table: {_table(port)}")
    kind = "a filled slot" + (f", {ROCE_V2}" if ports[0][1].link_layer == ETHERNET else "")
    remedy = "remove the GID index (Mooncake finds one for each HCA), or take one that fits every HCA"
    return graded(GID, good, bad, wanted, expected=f"index {index} {kind}", remedy=remedy)


def _check_automatic(ports: list[tuple[Hca, Port]], wanted: Wanted) -> Check:
    good: list[str] = []
    bad: list[str] = []
    only_local = False
    for hca, port in ports:
        candidates = [gid for gid in port.gids if _suits(port, gid)]
        routable = [gid for gid in candidates if not gid.link_local]
        (good if candidates else bad).append(f"{hca.name} {_table(port, routable or candidates)}")
        only_local |= port.link_layer == ETHERNET and bool(candidates) and not routable
    if bad:
        remedy = "give the port's interface an IP address (IPAM of the attached network) and enable RoCE v2"
        return graded(GID, good, bad, wanted, expected=f"a {ROCE_V2} GID, or an IB GID", remedy=remedy)
    if only_local:
        remedy = "give the port's interface an IP address; a link-local GID reaches its own subnet only"
        return warned(GID, "; ".join(good), expected="a routable GID", remedy=remedy)
    return passed(GID, "; ".join(good))


def _suits(port: Port, gid: Gid) -> bool:
    return port.link_layer != ETHERNET or gid.kind == ROCE_V2


def _table(port: Port, gids: list[Gid] | None = None) -> str:
    shown = port.gids if not gids else tuple(gids)
    more = f" and {len(shown) - SHOWN} more" if len(shown) > SHOWN else ""
    return ", ".join(str(gid) for gid in shown[:SHOWN]) + more if shown else "empty GID table"
