"""``python -m e2e.device_plugin [--resource NAME] [--units N] [--hcas N] [--exclusive] [--health FILE]``.

Must see the node's ``/var/lib/kubelet``; needs grpcio.
"""

import argparse
from pathlib import Path

from e2e.device_plugin.pool import Pool
from e2e.device_plugin.server import Plugin


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m e2e.device_plugin", description=__doc__)
    parser.add_argument("--resource", default="rdma/hca_shared_devices_a")
    parser.add_argument("--units", type=int, default=8)
    parser.add_argument("--hcas", type=int, default=1, help="uverbs devices that a shared unit opens")
    parser.add_argument("--exclusive", action="store_true", help="a unit is one HCA of its own")
    parser.add_argument("--folder", type=Path, default=Path("/var/lib/kubelet/device-plugins"))
    parser.add_argument("--health", type=Path, default=Path("/run/pdserving-unhealthy-devices"))
    given = parser.parse_args()
    Plugin(Pool(given.resource, given.units, given.hcas, given.exclusive), given.folder, given.health).run()


main()
