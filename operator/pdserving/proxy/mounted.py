"""Files that are replaced while the proxy runs: a Secret's, mounted into the pod.

About a minute after a Secret has changed the kubelet swaps a symbolic link, so that the same path leads to another
file. The wheel looks every two seconds, by one `stat` a file: inotify would have to follow the links.
"""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from pdserving.proxy.deadlines import Deadline, Wheel

logger = logging.getLogger(__name__)
SECONDS: Final = 2.0

Stamp = tuple[int, int, int]


class Watch:
    """Calls ``read`` at once, and again whenever one of the files is another one or failed to be read.

    ``read`` raises OSError or ValueError; `problem` then says what is wrong, until it succeeds.
    """

    def __init__(self, wheel: Wheel, what: str, paths: Sequence[Path], read: Callable[[], None]) -> None:
        self._wheel, self._what, self._paths, self._read = wheel, what, paths, read
        self._stamps: list[Stamp | None] | None = None
        self._deadline = Deadline(self.look)
        self.problem = ""
        self.look()

    def look(self) -> None:
        stamps = [_stamp(path) for path in self._paths]
        if stamps != self._stamps:
            self._stamps = stamps if self._try() else None
        self._wheel.arm(self._deadline, self._wheel.clock() + SECONDS)

    def _try(self) -> bool:
        before = self.problem
        try:
            self._read()
        except (OSError, ValueError) as error:
            self.problem = f"{self._what}: {error}"
            if self.problem != before:
                logger.error("mounted files can't be used", extra={"fields": {"problem": self.problem}})
            return False
        self.problem = ""
        logger.info("mounted files read", extra={"fields": {"files": ", ".join(map(str, self._paths))}})
        return True


def _stamp(path: Path) -> Stamp | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
