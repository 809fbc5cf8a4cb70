"""JSON files that say something of partitions, as Kafka's own tools read and write them.

{"version": 1, "partitions": [{"topic": "orders", "partition": 0, ...}]}
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from fencepost.cli.failures import InputError
from fencepost.client.metadata import TopicPartition

FILE_BYTES_MAX = 64 << 20
STDIN = "-"
PARTITION_MAX = (1 << 31) - 1


def read_partition_file(
    path: Path, key: str, *, may_be_empty: bool = False
) -> dict[TopicPartition, Any]:
    """By partition, what its entry has under `key`; `-` is standard input. InputError."""
    try:
        content = json.loads(_read(path))
        entries = list(content["partitions"])
        found = {(entry["topic"], entry["partition"]): entry[key] for entry in entries}
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: is no JSON: {error}") from error
    except (TypeError, KeyError, AttributeError) as error:
        raise InputError(
            f'{path}: must be {{"version": 1, "partitions": [{{"topic": ..., "partition": ...,'
            f' "{key}": ...}}]}}, and {type(error).__name__} {error} was found'
        ) from error
    if not found and not may_be_empty:
        raise InputError(f"{path}: names no partition")
    if len(found) < len(entries):
        raise InputError(f"{path}: names a partition twice")
    for topic, number in found:
        if type(topic) is not str or type(number) is not int or not 0 <= number <= PARTITION_MAX:
            raise InputError(f"{path}: there is no partition {number!r} of topic {topic!r}")
    return {TopicPartition(*where): value for where, value in found.items()}


def _read(path: Path) -> bytes:
    if str(path) == STDIN:
        data = sys.stdin.buffer.read(FILE_BYTES_MAX + 1)
    else:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    if len(data) > FILE_BYTES_MAX:
        raise InputError(f"{path}: is larger than {FILE_BYTES_MAX >> 20} MiB")
    return data
