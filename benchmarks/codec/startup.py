"""What a process pays before its first message: imports, and codecs made on first use."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from typing import Any

from benchmarks.codec.contestants import OURS
from benchmarks.peers import table

IMPORT_LIMIT_MS = 60
FIRST_USE_LIMIT_MS = 3

IMPORT = """
import time
start = time.perf_counter()
from fencepost.wire.api.metadata import MetadataResponse
print(time.perf_counter() - start)
"""

FIRST_USE = """
import json, time
from fencepost.wire import api
taken = {}
for key in sorted(api.API_NAMES):
    for cls in (api.request_class(key), api.response_class(key)):
        message = cls()
        for version in range(cls.min_version, cls.max_version + 1):
            start = time.perf_counter()
            cls.decode(message.encode(version), version)
            taken[f"{cls.__name__} v{version}"] = time.perf_counter() - start
print(json.dumps(taken))
"""


def _child(code: str, backend: str) -> Any:
    environment = {**os.environ, "FENCEPOST_PURE": "1" if backend.endswith("python") else "0"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def startup_table(rounds: int) -> str:
    """Milliseconds for the import, and for the first encode and decode of every version."""
    imports: dict[str, list[float]] = {name: [] for name in OURS}
    first: dict[str, list[dict[str, float]]] = {name: [] for name in OURS}
    for _ in range(rounds):
        for name in OURS:
            imports[name].append(_child(IMPORT, name))
            first[name].append(_child(FIRST_USE, name))
    rows = []
    for name in OURS:
        taken = {key: statistics.median(one[key] for one in first[name]) for key in first[name][0]}
        worst = max(taken, key=taken.__getitem__)
        rows.append(
            [
                name,
                f"{statistics.median(imports[name]) * 1e3:.1f}",
                f"{statistics.median(taken.values()) * 1e3:.2f}",
                f"{taken[worst] * 1e3:.2f} ({worst})",
                f"{sum(one > FIRST_USE_LIMIT_MS / 1e3 for one in taken.values())} of {len(taken)}",
            ]
        )
    headings = [
        "ms",
        f"import of one message (aim {IMPORT_LIMIT_MS})",
        "first use of a version",
        "slowest",
        f"over {FIRST_USE_LIMIT_MS} ms",
    ]
    return table(headings, rows)
