"""Write the files that are generated from the code, or check that they are what it says.

usage: python -m scripts.generate [--check]
"""

import argparse
import difflib
import sys
from pathlib import Path

from e2e.lib.parameters import render_table
from pdserving.cli.crd import render_crd

ROOT = Path(__file__).resolve().parent.parent


def generated() -> dict[Path, str]:
    """Path below the root -> content."""
    crd = render_crd()
    return {
        Path("crds/pdserving.dev_pdservinggroups.yaml"): crd,
        Path("charts/pdserving/files/pdserving.dev_pdservinggroups.yaml"): crd,
        Path("docs/parameters.md"): render_table(),
    }


def difference(path: Path, wanted: str) -> list[str]:
    current = (ROOT / path).read_text() if (ROOT / path).exists() else ""
    return list(
        difflib.unified_diff(current.splitlines(), wanted.splitlines(), f"{path}", f"{path} (generated)", lineterm="")
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="fail if a file is stale instead of writing it")
    check = parser.parse_args().check
    stale = {path: text for path, text in generated().items() if difference(path, text)}
    if check and stale:
        for path, text in stale.items():
            print(*difference(path, text)[:20], sep="\n")
        sys.exit("generated files are stale: run `make generate`")
    for path, text in stale.items():
        (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / path).write_text(text)
        print("wrote", path)


if __name__ == "__main__":
    main()
