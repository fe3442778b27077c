"""Where everything lies: one cache outside the source tree, so that a checkout stays clean and a second run is fast.

`run/` holds the running cluster and is lost at `down`; everything else is kept and keyed by what decides its content.
"""

import os
from pathlib import Path

from e2e.cluster import versions

ROOT = Path(__file__).resolve().parents[2]
"""The source tree."""

CACHE = Path(
    os.environ.get("PDSERVING_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pdserving"
).absolute()

BIN = CACHE / "bin" / versions.programs_key()
"""The cluster's programs, kubectl and helm included; it exists once they have been built."""

UNPACKED = CACHE / "debian"
"""Root of the Debian packages that are used without being installed."""

RUN = CACHE / "run"
KUBECONFIG = RUN / "admin.conf"
"""Admin credentials of the running cluster."""
AUDIT_LOG = RUN / "audit.log"
"""One JSON line for every request that the API server of the running cluster finished."""
CLIENT_CACHE = {"KUBECACHEDIR": str(RUN / "kubectl")}
"""Environment of kubectl and helm: what they learn of this cluster stays out of the user's home."""
LOGS = RUN / "logs"
"""Output of every component of the running cluster, one file each."""


def program(name: str) -> Path:
    """The file of one of the cluster's programs."""
    return BIN / name
