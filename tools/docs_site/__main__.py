"""Builds the site: `make docs`, or `python -m docs_site` with tools/ on the path."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from docs_site.assemble import DOCS, ROOT, write


def main() -> int:
    """Assemble the sources and run Sphinx over them; its exit code, 1 when it warned."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "docs", help="the site")
    parser.add_argument("--fresh", action="store_true", help="forget what was built before")
    options = parser.parse_args()
    work = options.out.with_name(options.out.name + "-work")
    if options.fresh:
        shutil.rmtree(work, ignore_errors=True)
        shutil.rmtree(options.out, ignore_errors=True)
    write(work / "source")

    from sphinx.cmd.build import build_main

    code: int = build_main(
        ["-q", "-W", "--keep-going", "-b", "html", "-c", str(DOCS)]
        + ["-d", str(work / "doctrees"), str(work / "source"), str(options.out)]
    )
    if code == 0:
        print(options.out / "index.html")
    else:
        # Sphinx would not warn again of pages that it has read and that have not changed.
        shutil.rmtree(work / "doctrees", ignore_errors=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
