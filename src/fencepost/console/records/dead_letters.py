"""Where the record of a dead letter was: what its headers say, by three conventions.

| headers | written by | numbers are |
|---|---|---|
| `__dlq.errors.topic`, `.partition`, `.offset` | share groups (KIP-1191) | decimal text |
| `__connect.errors.topic`, `.partition`, `.offset` | Kafka Connect (KIP-298) | decimal text |
| `kafka_dlt-original-topic`, `-partition`, `-offset` | Spring for Apache Kafka | 4 and 8 bytes |

Spring's topics for retries have `kafka_original-topic` and so on. Headers are whatever a producer
likes: what is no topic, no partition or no offset is no origin.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from fencepost.views.view import View

SHARE_GROUP: Final = "share group"
PREFIXES: Final = (
    ("__dlq.errors.", SHARE_GROUP),
    ("__connect.errors.", "Connect"),
    ("kafka_dlt-original-", "Spring"),
    ("kafka_original-", "Spring"),
)
_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_DIGITS: Final = re.compile(rb"[0-9]{1,19}")
REASONS: Final = (
    "__dlq.errors.message",
    "__connect.errors.exception.message",
    "kafka_dlt-exception-message",
    "kafka_exception-message",
)
REASON_BYTES_MAX: Final = 500


class Origin(View, frozen=True):
    """Where the record of a dead letter was, who wrote the letter, and the reason that it gives."""

    topic: str
    partition: int
    offset: int
    convention: str
    reason: str | None

    @property
    def text(self) -> str:
        return f"{self.topic}-{self.partition} at {self.offset}"


def origin_of(headers: Sequence[tuple[str, bytes | None]]) -> Origin | None:
    """The origin that a record's headers name, None where they name none. Of headers that are there
    several times the last counts: a letter of a letter has those of both."""
    found = {name: value for name, value in headers if value is not None}
    for prefix, convention in PREFIXES:
        topic = found.get(f"{prefix}topic", b"").decode(errors="replace")
        partition = _number(found.get(f"{prefix}partition", b""), 4)
        offset = _number(found.get(f"{prefix}offset", b""), 8)
        if partition is None or offset is None or not _TOPIC.fullmatch(topic):
            continue
        return Origin(topic, partition, offset, convention, _reason(found))
    return None


def _number(value: bytes, size: int) -> int | None:
    """A number of `size` bytes, or decimal: digits as a number of bytes would be absurdly high."""
    most = 2 ** (8 * size - 1) - 1
    if _DIGITS.fullmatch(value):
        number = int(value)
    elif len(value) == size:
        number = int.from_bytes(value, "big", signed=True)
    else:
        return None
    return number if 0 <= number <= most else None


def _reason(found: dict[str, bytes]) -> str | None:
    for name in REASONS:
        if name in found:
            return found[name][:REASON_BYTES_MAX].decode(errors="replace")
    return None
