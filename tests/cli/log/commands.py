"""What `fencepost log` printed, and the segment that the tests look at."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


class Output:
    """What a command printed."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code = code
        self.out = out
        self.err = err

    @property
    def json(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


def segment_of(data_dir: Path) -> Path:
    return data_dir / "orders-0" / f"{6:020d}.log"
