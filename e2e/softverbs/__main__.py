"""``python -m e2e.softverbs build | check [address|thread]``."""

import sys

from e2e.softverbs import build


def main() -> None:
    match sys.argv[1:]:
        case ["build"]:
            print(build.library())
        case ["check", *sanitizers]:
            for sanitizer in sanitizers or ["none"]:
                build.check(sanitizer)
        case _:
            raise SystemExit(__doc__)


main()
