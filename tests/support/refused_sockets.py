"""urllib leaves a socket to the garbage collector for each attempt at a server that does not listen yet.

pytest takes its warning for an error of the test that runs when the collector does.
"""

import gc
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def tolerated() -> Iterator[None]:
    """Around waiting for a server."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield
        gc.collect()
