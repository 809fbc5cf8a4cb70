"""Runs every benchmark one after the other; each prints its tables. `--only NAME` picks one."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def main() -> int:
    found = {path.parent.name: path for path in sorted(HERE.glob("*/bench.py"))}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=sorted(found), action="append")
    chosen = parser.parse_args().only or sorted(found)
    failed = []
    for name in chosen:
        print(f"\n== {name}: {found[name].relative_to(HERE.parent)}", flush=True)
        if subprocess.run([sys.executable, str(found[name])], check=False).returncode != 0:
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
