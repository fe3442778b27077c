"""A kubelet device plugin that hands out RDMA-shaped devices on nodes without RDMA.

It speaks real gRPC to the real kubelet, so requests, counts, exhaustion, lost health and plugin restarts behave as on
hardware. Behind the device nodes is the host's ``/dev/null``, which is what softverbs' ``device_nodes = real`` needs.
"""
