"""The check that runs inside an engine pod before the engine starts, and by hand on a node.

vLLM loads the whole model before Mooncake looks for an HCA, and without one Mooncake takes TCP and says nothing. This
package finds the same facts in milliseconds and writes them, with a remedy for each, into the container's termination
message, so that an engine pod needs no API rights to say why it does not start.

Standard library only: it must start fast and run in any image that has Python. `observe` reads the machine into
records, `checks` judges the records purely, `result` is what others read.
"""
