"""`fencepost transactions explain TOPIC`: why a last stable offset stands still."""

from __future__ import annotations

import argparse
import shlex
from typing import TYPE_CHECKING, Any

from fencepost.cli.cluster_options import command, finish_cluster_command, open_cluster
from fencepost.cli.failures import escaped
from fencepost.cli.output import print_json
from fencepost.cli.times import iso_time

if TYPE_CHECKING:
    from fencepost.client.stable_offset import OpenTransaction, StableOffset
    from fencepost.client.transaction_admin import TransactionDescription

DESCRIPTION = """\
Readers with isolation.level=read_committed read up to the last stable offset: the first offset of
the oldest transaction that is open, at most the high watermark. This says for every partition that
is held which producer has that transaction open, since when, what its coordinator says, and what
would release the readers.
"""


def register(actions: Any) -> None:
    """Add the parser."""
    parser = actions.add_parser(
        "explain",
        help="why do readers of a topic wait: which producer holds the last stable offset",
        description=DESCRIPTION,
    )
    parser.add_argument(
        "partitions",
        nargs="*",
        metavar="TOPIC",
        help="TOPIC, or TOPIC:PARTITION for one of it; default: all partitions that are held",
    )
    finish_cluster_command(parser, explain)


@command
def explain(arguments: argparse.Namespace) -> int:
    """One paragraph for every partition that is held, one line for those that are not."""
    from fencepost.cli.partition_words import existing_or_all_partitions
    from fencepost.cli.times import now_ms
    from fencepost.client import stable_offset
    from fencepost.client.admin import Admin

    with open_cluster(arguments) as cluster:
        admin = Admin(cluster)
        partitions = existing_or_all_partitions(admin, arguments.partitions)
        now = now_ms()
        found = stable_offset.explain(admin, partitions, now)
    if not arguments.partitions:
        found = [one for one in found if one.verdict is not stable_offset.Verdict.NOTHING]
    if arguments.json:
        print_json([_as_json(one, now) for one in found])
        return 0
    if not found:
        print(f"nothing is held in any of {len(partitions)} partitions")
    for one in found:
        for line in _lines(one, now):
            print(escaped(line))
    return 0


def _as_json(one: StableOffset, now_ms: int) -> dict[str, Any]:
    from fencepost.cli.transactions_json import open_as_json

    return {
        "partition": f"{one.partition.topic}:{one.partition.partition}",
        "last_stable_offset": one.last_stable_offset,
        "high_watermark": one.high_watermark,
        "verdict": one.verdict.value,
        "release": release_of(one.open[0]) if one.open else None,
        "open": [open_as_json(transaction) for transaction in one.open],
    }


def _lines(one: StableOffset, now_ms: int) -> list[str]:
    from fencepost.client.stable_offset import Verdict

    behind = one.high_watermark - one.last_stable_offset
    if one.verdict is Verdict.NOTHING:
        return [f"{one.partition}: nothing is held, readers reach offset {one.high_watermark}"]
    first = f"{one.partition}: readers wait at offset {one.last_stable_offset}, {behind} before "
    lines = [f"{first}the high watermark {one.high_watermark}"]
    if not one.open:
        return [*lines, "  no transaction is open any more: look again"]
    oldest = one.open[0]
    lines.append(f"  producer {_producer(oldest, now_ms)}")
    lines.append(f"  coordinator: {_coordinator(oldest, now_ms)}")
    lines += [f"  {text}" for text in _advice(oldest, now_ms)]
    if len(one.open) > 1:
        lines.append(f"  behind it {len(one.open) - 1} more transaction(s) are open:")
        lines += [
            f"    producer {_producer(later, now_ms)}: {later.verdict.value}"
            for later in one.open[1:]
        ]
    return lines


def _producer(one: OpenTransaction, now_ms: int) -> str:
    producer = one.producer
    text = f"{producer.producer_id} epoch {producer.producer_epoch} has a transaction open from"
    text += f" offset {producer.start_offset} on"
    if one.first_timestamp_ms >= 0:
        since_s = max(0, now_ms - one.first_timestamp_ms) // 1000
        text += f", since {iso_time(one.first_timestamp_ms)} ({since_s} s)"
    if producer.last_timestamp_ms >= 0:
        text += f", last wrote {iso_time(producer.last_timestamp_ms)}"
    return text


def _coordinator(one: OpenTransaction, now_ms: int) -> str:
    known = one.known
    if known is None:
        return "none knows the producer id"
    text = f"broker {known.coordinator_id} has it as transactional id {known.transactional_id}, "
    text += f"{known.state}, epoch {known.producer_epoch}"
    if known.start_ms >= 0 and not known.is_over:
        running_s = max(0, now_ms - known.start_ms) // 1000
        text += f", for {running_s} s of at most {known.timeout_ms // 1000}"
    if one.partition not in known.partitions:
        text += ", without this partition"
    return text


def _advice(one: OpenTransaction, now_ms: int) -> list[str]:
    """What this means, and what would release the readers."""
    from fencepost.client.stable_offset import ENDED_EVERY_MS, NEVER_MS, Verdict

    release = release_of(one)
    known: TransactionDescription | None = one.known
    match one.verdict:
        case Verdict.HANGING:
            return ["it hangs: no coordinator will ever end it", f"to release: {release}"]
        case Verdict.ENDING:
            return [
                "it is decided, and its marker is still to be written here: this takes moments",
                "if it lasts: the partition has too few in-sync replicas, or the coordinator "
                "cannot reach its leader",
            ]
        case Verdict.REFUSED:
            return refusal_of(one)
        case Verdict.OVERDUE:
            return [
                "it has taken longer than its timeout: its coordinator should have aborted it",
                f"to release: {release}",
            ]
    assert known is not None, one
    timeout = iso_time(known.start_ms + known.timeout_ms)
    if known.timeout_ms >= NEVER_MS:
        ends = "it never times out (two-phase commit): its producer ends it"
    elif now_ms <= known.start_ms + known.timeout_ms:
        ends = f"its producer ends it, or its timeout at {timeout}"
    else:
        every_s = ENDED_EVERY_MS // 1000
        ends = (
            f"it timed out at {timeout}: its coordinator, which looks every {every_s} s, aborts it"
        )
    return [ends, f"to release now: {release}"]


def refusal_of(one: OpenTransaction) -> list[str]:
    """Why the partition refuses the marker of a transaction that is decided, and for how long."""
    assert one.known is not None, one
    producer, known = one.producer, one.known
    forgotten = f"{one.partition} has forgotten the producer (producer.id.expiration.ms after "
    forgotten += f"{iso_time(producer.last_timestamp_ms)})"
    if producer.producer_epoch > known.producer_epoch:
        return [
            f"{one.partition} refuses its marker, INVALID_PRODUCER_EPOCH: somebody wrote one with "
            f"producer epoch {producer.producer_epoch}, the coordinator's has "
            f"{known.producer_epoch}",
            f"the coordinator asks again: {known.state} lasts until {forgotten}",
        ]
    return [
        f"{one.partition} refuses its marker, TRANSACTION_COORDINATOR_FENCED: somebody wrote one "
        f"with coordinator epoch {producer.coordinator_epoch}, the coordinator's has "
        f"{one.coordinator_epoch}",
        f"the coordinator asks again: {known.state} lasts until the leader epoch of the id's "
        f"partition of __transaction_state has reached {producer.coordinator_epoch} (every "
        f"election adds one), or until {forgotten}",
    ]


def release_of(one: OpenTransaction) -> str | None:
    """The command that releases readers; None when there is only waiting."""
    from fencepost.client.stable_offset import Verdict

    if one.verdict in (Verdict.ENDING, Verdict.REFUSED):
        return None
    if one.verdict is Verdict.HANGING or one.known is None:
        where = shlex.quote(f"{one.partition.topic}:{one.partition.partition}")
        return f"fencepost transactions abort {where} --start-offset {one.producer.start_offset}"
    return f"fencepost transactions force-terminate {_shell_word(one.known.transactional_id)}"


def _shell_word(text: str) -> str:
    """`text` for a shell; as `$'...'`, with escapes, where it is not all printable."""
    if text.isprintable():
        return shlex.quote(text)
    quoted = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"$'{escaped(quoted)}'"
