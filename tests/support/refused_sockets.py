"""urllib leaves a socket to the garbage collector for each attempt at a server that does not listen yet.

pytest takes its warning for an error of the test that runs when the collector does.
"""

import gc
import warnings


def collect_refused_sockets() -> None:
    """To be called after waiting for a server."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
