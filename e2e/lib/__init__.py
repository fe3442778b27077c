"""What the suites and the demo are written with: a cluster, a release of the chart, groups, questions, evidence."""
