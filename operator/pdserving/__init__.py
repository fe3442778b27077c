"""pdserving: disaggregated prefill/decode serving of large language models on Kubernetes.

Layers, each importing only those to its right (executed by import-linter):
``cli > controller | proxy | preflight > kube > core > api``.
"""

__version__ = "0.1.0"
