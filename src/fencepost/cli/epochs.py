"""`fencepost epochs TOPIC`: the leader epochs of every replica's log, and where logs diverge.

Each broker is asked for its own replica, with Fetch as a consumer may send it to any replica
(`fencepost.client.lineage`), so this works against every Kafka cluster whose brokers have Fetch
version 12 (Kafka 2.7) or later. Of older ones the leader is asked with OffsetForLeaderEpoch.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fencepost.cli.cluster_options import add_cluster_options, command, open_cluster
from fencepost.cli.failures import InputError, UsageError
from fencepost.cli.output import add_json_option, print_json

if TYPE_CHECKING:
    from fencepost.cli.epochs_drawing import Picture
    from fencepost.client.lineage import Divergence, ReplicaLineage
    from fencepost.client.metadata import PartitionInfo

WIDTH_MIN = 60

EPILOG = """\
A leader notes the offset at which its epoch begins before it takes a write; followers copy that
with the records. `|2----` is a log that has records of leader epoch 2 from that offset on. `!!!!`
are records that the leader does not have at those offsets: they will be cut off.

examples:
  fencepost epochs orders
  fencepost epochs orders --partition 3 --json
  fencepost epochs orders --svg epochs.svg
"""


def register(subparsers: Any) -> None:
    """Add the parser of `fencepost epochs`."""
    parser = subparsers.add_parser(
        "epochs",
        help="the leader epochs of every replica's log, and where logs diverge",
        description="The leader epochs of every replica's log, and where logs diverge.",
        epilog=EPILOG,
    )
    parser.add_argument("topic")
    parser.add_argument(
        "--partition", type=int, action="append", metavar="N", help="only this (repeatable)"
    )
    parser.add_argument("--svg", type=Path, metavar="FILE", help="write the picture as SVG")
    add_json_option(parser)
    add_cluster_options(parser)
    parser.set_defaults(run=run)


@command
def run(arguments: argparse.Namespace) -> int:
    """Ask every replica, and print a picture or JSON."""
    from fencepost.client.lineage import replica_lineages
    from fencepost.client.metadata import TopicPartition

    pictures, rows, replicas = [], [], []
    with open_cluster(arguments) as cluster:
        topic = cluster.topic(arguments.topic)
        unknown = sorted(set(arguments.partition or ()) - set(topic.partition_ids))
        if unknown:
            raise UsageError(f"topic {arguments.topic} has no partition {unknown[0]}")
        for number in sorted(set(arguments.partition or topic.partition_ids)):
            info = topic.partitions[number]
            found = replica_lineages(cluster, TopicPartition(arguments.topic, number))
            reference = _reference(found, info)
            parted = {one.broker_id: _divergence(reference, one) for one in found}
            pictures.append(_picture(arguments.topic, info, found, reference, parted))
            replicas += [_as_json(info, one, parted[one.broker_id]) for one in found]
            if reference is not None:
                rows += [{"partition": number, **span._asdict()} for span in reference.spans]
    if arguments.svg is not None:
        _write_svg(arguments.svg, pictures)
    if arguments.json:
        print_json({"topic": arguments.topic, "epochs": rows, "replicas": replicas})
    elif arguments.svg is None:
        _print(pictures)
    return 0


def _reference(found: list[ReplicaLineage], info: PartitionInfo) -> ReplicaLineage | None:
    """The log that others are held against: the leader's, else that of the newest epoch."""
    told = [one for one in found if one.error is None]
    leading = [one for one in told if one.broker_id == info.leader_id]
    newest = sorted(told, key=lambda one: one.spans[-1][::2] if one.spans else (-1, -1))
    return next(iter(leading + newest[::-1]), None)


def _divergence(reference: ReplicaLineage | None, one: ReplicaLineage) -> Divergence | None:
    from fencepost.client.lineage import find_divergence

    if reference is None or one is reference or one.error is not None:
        return None
    return find_divergence(reference.spans, one.spans)


def _role(info: PartitionInfo, broker: int) -> str:
    if broker == info.leader_id:
        return "leader"
    return "in sync" if broker in info.isr else "out of sync"


def _picture(
    topic: str,
    info: PartitionInfo,
    found: list[ReplicaLineage],
    reference: ReplicaLineage | None,
    parted: dict[int, Divergence | None],
) -> Picture:
    from fencepost.cli.epochs_drawing import Picture, Row

    leader = f"leader {info.leader_id}" if info.leader_id >= 0 else "no leader"
    heading = (
        f"{topic}-{info.partition}  {leader}, leader epoch {info.leader_epoch}, in sync"
        f" {','.join(map(str, info.isr)) or '-'}"
    )
    rows = [
        Row(f"{one.broker_id} {_role(info, one.broker_id)}", one, parted[one.broker_id])
        for one in found
    ]
    notes = []
    for one in found:
        divergence = parted[one.broker_id]
        if divergence is not None and reference is not None:
            notes.append(_in_words(one, divergence, reference.broker_id, info))
    return Picture(heading, rows, notes)


def _in_words(
    one: ReplicaLineage, divergence: Divergence, reference: int, info: PartitionInfo
) -> str:
    offset, epoch, there = divergence
    whose = f"leader {reference}" if reference == info.leader_id else f"broker {reference}"
    has = f"has leader epoch {there} there" if there >= 0 else "has no record there"
    return (
        f"broker {one.broker_id} diverges at offset {offset}: it has leader epoch {epoch},"
        f" {whose} {has} ({one.end_offset - offset} records)"
    )


def _as_json(
    info: PartitionInfo, one: ReplicaLineage, divergence: Divergence | None
) -> dict[str, Any]:
    known = one.error is None
    return {
        "partition": info.partition,
        "broker": one.broker_id,
        "role": _role(info, one.broker_id),
        "epochs": [span._asdict() for span in one.spans] if known else None,
        "high_watermark": one.high_watermark if one.high_watermark >= 0 else None,
        "diverges_at": divergence.offset if divergence is not None else None,
        "error": one.error,
    }


def _print(pictures: list[Picture]) -> None:
    from fencepost.cli.epochs_drawing import draw_text

    width = max(WIDTH_MIN, shutil.get_terminal_size().columns)
    for number, picture in enumerate(pictures):
        if number:
            print()
        print(*draw_text(picture, width), sep="\n")


def _write_svg(path: Path, pictures: list[Picture]) -> None:
    from fencepost.cli.epochs_drawing import draw_svg

    try:
        path.write_text(draw_svg(pictures), encoding="utf-8")
    except OSError as error:
        raise InputError(f"--svg {path}: {error.strerror}") from error
    print(f"wrote {path}", file=sys.stderr)
