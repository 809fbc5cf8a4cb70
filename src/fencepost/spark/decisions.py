"""Where the exactly-once sink keeps its decisions: in the offsets of a consumer group.

A decision says: this batch is written, and these are its transactions. It is the commit metadata of
one offset of the group that is named like the sink, committed by TxnOffsetCommit in a transaction
of the sink's driver. So it is as durable as any committed offset, appears as a whole or not at all,
and a driver that was fenced can make none. The offset itself is the decision's number, which grows
by one; the partition it is "of" is 0 of one of the batch's topics, because there must be one.

Brokers limit metadata (`offset.metadata.max.bytes`, 4096 by default), so a long decision is spread
over several groups, NAME, NAME.1, NAME.2 and so on, all in the same transaction. Each part begins
with "number of parts:"; together they are JSON, compressed, in base 64.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fencepost.client.cluster import Cluster
from fencepost.client.groups import GroupAdmin
from fencepost.client.metadata import CommittedOffset, TopicPartition
from fencepost.client.open_transactions import OpenTransaction
from fencepost.client.produce_queue import Identity
from fencepost.spark.sink_errors import DecisionError, ExactlyOnceError

FORMAT: Final = 1
PART_CHARS: Final = 3_500
PARTS_MAX: Final = 1_000
_NOT_JSON: Final = (ValueError, TypeError, RecursionError)
DECISION_BYTES_MAX: Final = 16 * 1024 * 1024
"""What a decision may be decompressed to: some 200,000 tasks."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A batch that is written."""

    number: int
    """Grows by one from decision to decision of a sink."""
    query: str
    """The query's id; empty for a batch write."""
    batch: int
    """The batch's id in its query; -1 when the query's last batch was revoked."""
    topic: str
    """One of the batch's topics."""
    maker: Identity
    """Producer id and epoch of the driver that made it."""
    transactions: tuple[OpenTransaction, ...]
    """Those of the batch; each is to be committed."""
    spare: tuple[str, ...] = ()
    """Transactional ids of the decision before, which are free to be used again."""


def encode(decision: Decision, sink: str) -> list[str]:
    """A decision as commit metadata, in parts."""
    content = {
        "format": FORMAT,
        "number": decision.number,
        "query": decision.query,
        "batch": decision.batch,
        "topic": decision.topic,
        "maker": list(decision.maker),
        "transactions": [
            [_tail(one.transactional_id, sink), one.producer_id, one.producer_epoch, one.is_tv2]
            for one in decision.transactions
        ],
        "spare": [_tail(name, sink) for name in decision.spare],
    }
    packed = zlib.compress(json.dumps(content, separators=(",", ":")).encode(), 6)
    text = base64.b64encode(packed).decode()
    pieces = [text[at : at + PART_CHARS] for at in range(0, len(text), PART_CHARS)]
    if len(pieces) > PARTS_MAX:
        count = len(decision.transactions)
        raise ExactlyOnceError(
            "TOO_MANY_TRANSACTIONS",
            f"a batch of {sink} has {count} transactions, which is more than can be decided at "
            "once: let fewer tasks write it (coalesce)",
            {"sink": sink, "batch": decision.batch, "transactions": count},
        )
    return [f"{len(pieces)}:{piece}" for piece in pieces]


def decode(parts: list[str], sink: str) -> Decision:
    """The opposite of `encode`. DecisionError."""
    try:
        packed = base64.b64decode("".join(part.partition(":")[2] for part in parts), validate=True)
        unpacker = zlib.decompressobj()
        text = unpacker.decompress(packed, DECISION_BYTES_MAX)
        if not unpacker.eof:
            raise ValueError("it is cut short, or too long")
        content = json.loads(text)
        if content["format"] != FORMAT:
            raise ValueError(f"its format is {content['format']!r}, known is {FORMAT}")
        return Decision(
            number=int(content["number"]),
            query=str(content["query"]),
            batch=int(content["batch"]),
            topic=str(content["topic"]),
            maker=Identity(*map(int, content["maker"])),
            transactions=tuple(
                OpenTransaction(f"{sink}-{tail}", int(number), int(epoch), bool(is_tv2))
                for tail, number, epoch, is_tv2 in content["transactions"]
            ),
            spare=tuple(f"{sink}-{tail}" for tail in content["spare"]),
        )
    except (binascii.Error, zlib.error, ArithmeticError, LookupError, *_NOT_JSON) as error:
        raise DecisionError(sink, str(error)) from error


def _tail(transactional_id: str, sink: str) -> str:
    return transactional_id.removeprefix(f"{sink}-")


def groups_of(decision: Decision, sink: str) -> dict[str, dict[TopicPartition, CommittedOffset]]:
    """What each group commits to make `decision` known."""
    where = TopicPartition(decision.topic, 0)
    return {
        _group(sink, number): {where: CommittedOffset(decision.number, -1, part)}
        for number, part in enumerate(encode(decision, sink))
    }


def read_decision(cluster: Cluster, sink: str) -> Decision | None:
    """The last decision of a sink; None if there is none. DecisionError, ClientError.

    Certain only for a driver that has fenced those before it.
    """
    groups = GroupAdmin(cluster)
    where, first = _last(groups.group_offsets(sink, require_stable=True))
    if where is None or first is None:
        return None
    parts = [first.metadata]
    for number in range(1, _count(first.metadata, sink)):
        group = _group(sink, number)
        found = groups.group_offsets(group, [where], require_stable=True).get(where)
        if found is None or found.offset != first.offset:
            raise DecisionError(sink, f"number {first.offset} lacks its part in {group}")
        parts.append(found.metadata)
    return decode(parts, sink)


def _last(
    offsets: Mapping[TopicPartition, CommittedOffset],
) -> tuple[TopicPartition | None, CommittedOffset | None]:
    """Batches of other topics have left older ones."""
    found: Any = max(offsets.items(), key=lambda entry: entry[1].offset, default=(None, None))
    where, offset = found
    return where, offset


def _count(part: str, sink: str) -> int:
    text = part.partition(":")[0]
    if not re.fullmatch("[0-9]{1,9}", text) or not 1 <= int(text) <= PARTS_MAX:
        raise DecisionError(sink, "they do not begin with a number of parts")
    return int(text)


def _group(sink: str, number: int) -> str:
    return sink if number == 0 else f"{sink}.{number}"
