"""Every string that two parts of the system must agree on: API names, labels, annotations, ports.

Nothing else in the code base spells one of these.
"""

from typing import Final

GROUP: Final = "pdserving.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
KIND: Final = "PDServingGroup"
PLURAL: Final = "pdservinggroups"
SHORT_NAME: Final = "pdsg"

MANAGER: Final = "pdserving-operator"
"""Field manager of server-side apply and value of ``app.kubernetes.io/managed-by``."""

APP_NAME: Final = "app.kubernetes.io/name"
APP_INSTANCE: Final = "app.kubernetes.io/instance"
APP_COMPONENT: Final = "app.kubernetes.io/component"
APP_PART_OF: Final = "app.kubernetes.io/part-of"
APP_MANAGED_BY: Final = "app.kubernetes.io/managed-by"

GROUP_LABEL: Final = f"{GROUP}/group"
"""On every object of a group, pods included; the value is the group's name."""
ROLE_LABEL: Final = f"{GROUP}/role"
"""``prefill``, ``decode`` or ``proxy``."""
LANE_LABEL: Final = f"{GROUP}/lane"
"""On engine StatefulSets and pods: hash of the fields on which P and D must agree to exchange KV cache."""

DESIRED_HASH: Final = f"{GROUP}/desired-hash"
"""Annotation on every owned object: hash of what we applied, so that a field that we stop setting is removed."""
RANKS: Final = f"{GROUP}/ranks"
"""Annotation on engine pods: ``<data>x<tensor>x<pipeline>`` ranks that a complete bootstrap server shows."""

PREFILL: Final = "prefill"
DECODE: Final = "decode"
PROXY: Final = "proxy"

ENGINE_CONTAINER: Final = "engine"
PROXY_CONTAINER: Final = "proxy"
PREFLIGHT_CONTAINER: Final = "preflight"

ENGINE_PORT: Final = 8000
BOOTSTRAP_PORT: Final = 8998
PROXY_PORT: Final = 8000
PROXY_ADMIN_PORT: Final = 9090

PAIR_VERIFIED: Final = "verified"
"""State of a pair of engines in ``/debug/pool``: its last canary passed."""
PAIR_FAILED: Final = "failed"
"""Two canaries in a row showed the same or another symptom."""
PAIR_UNKNOWN: Final = "unknown"
