"""The thin shell around the core: why we wake up, what we look at, how we act, what we report.

Watches (kopf) feed a cache and a queue; `reconcile(key)` observes, plans, acts and reports.
"""
