"""Tells the C library to keep the memory of large bodies.

By default glibc maps each buffer of 128 KiB or more anew and gives it back at once: a prompt of 1 MB then costs about a
thousand page faults, most of its price. With the limits below its pages are used again. The heap keeps at most
`KEPT` free bytes at its end, which bounds what a burst of large prompts leaves behind.
"""

import ctypes
from typing import Final

M_TRIM_THRESHOLD: Final = -1
M_MMAP_THRESHOLD: Final = -3
"""From malloc.h; glibc only."""
LARGEST: Final = 64 * 1024 * 1024
KEPT: Final = 64 * 1024 * 1024


def keep_buffers() -> bool:
    """Returns whether the C library can be told."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:  # musl
        return False
    return bool(mallopt(M_MMAP_THRESHOLD, LARGEST) and mallopt(M_TRIM_THRESHOLD, KEPT))
