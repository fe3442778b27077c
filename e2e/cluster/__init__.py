"""A real Kubernetes in namespaces of one Linux machine: no systemd, no registry, no virtual machines.

Every node is a *holder* process that owns a pid, a mount and a network namespace. All that a node runs lives in them,
so killing the holder ends the node: its pods, mounts and interfaces vanish with it. The control plane runs in node 1.
Nodes hang on one bridge, 10.99.0.0/24, whose address .254 belongs to the machine: from there the API server, pod
addresses, Services and the cluster's DNS are reachable directly. There is no default route: nothing can leave.

`python -m e2e.cluster` is the command line; `lifecycle` the same for programs; `ControlPlane` an API server alone, for
tests that need no nodes. Standard library only, so that it runs before anything is installed.
"""
