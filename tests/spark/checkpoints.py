"""Checkpoints as Spark writes them, for tests that need no Spark."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

QUERY_ID = "11111111-2222-3333-4444-555555555555"
METADATA = {"batchWatermarkMs": 0, "batchTimestampMs": 1795412218206, "conf": {"a": "b"}}

Offset = Mapping[str, object] | None


def write_checkpoint(
    folder: Path,
    *batches: Mapping[str, Offset] | list[Offset],
    committed: int | None = None,
) -> Path:
    """Batches 0, 1, ... with an offset per source: a list for v1, by name for v2."""
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "metadata").write_text(json.dumps({"id": QUERY_ID}))
    for number, sources in enumerate(batches):
        (folder / "offsets" / str(number)).write_text(offsets_text(sources))
        (folder / "offsets" / f".{number}.crc").write_bytes(b"crc\0")
    for number in range(-1 if committed is None else committed, -1, -1):
        (folder / "commits" / str(number)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    return folder


def offsets_text(sources: Mapping[str, Offset] | list[Offset]) -> str:
    """A file of offsets."""
    lines = ["v2" if isinstance(sources, Mapping) else "v1", json.dumps(METADATA)]
    if isinstance(sources, Mapping):
        lines += [f"{name}:{_text(offset)}" for name, offset in sources.items()]
    else:
        lines += [_text(offset) for offset in sources]
    return "\n".join(lines)


def _text(offset: Offset) -> str:
    return "-" if offset is None else json.dumps(offset, separators=(",", ":"))
