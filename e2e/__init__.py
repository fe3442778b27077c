"""End-to-end suites on real engines, the demo, and the cluster that both run on."""
