"""CPU, latency and memory of the P/D proxy, next to its peers on the same mock engines: ``python -m bench.proxy``.

A figure of one proxy alone says little on a shared machine, so every target is run in turn on one core within one
session, and the ratios are what counts. The engines and the clients are C programs on a second core, and both check
what they see: a run in which a single answer or a single P or D leg was wrong is no result.
"""
