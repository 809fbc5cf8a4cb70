"""`fencepost spark checkpoint move`: the query goes on from other offsets."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING

from fencepost.cli.cluster_options import INT64_MAX, check_number, command, open_cluster
from fencepost.cli.failures import InputError
from fencepost.cli.partition_words import topic_word
from fencepost.cli.spark_checkpoint.opened import (
    carry_out,
    checkpoint_errors,
    given_offsets,
    open_checkpoint,
)

if TYPE_CHECKING:
    from fencepost.arrow.offsets import StreamOffset
    from fencepost.client.cluster import Cluster
    from fencepost.client.metadata import TopicPartition
    from fencepost.spark.checkpoint_edit import Opened


@command
def move(arguments: argparse.Namespace) -> int:
    """Write the last committed batch's end again, elsewhere."""
    from fencepost.spark.checkpoint_edit import plan_offsets

    with checkpoint_errors():
        opened = open_checkpoint(arguments)
        chosen = _chosen(opened, arguments)
        _require_named(chosen, arguments.topic)
        if arguments.offsets is not None and arguments.bootstrap_server is None:
            wanted = _by_json(chosen, arguments, {})
        else:
            with open_cluster(arguments) as cluster:
                wanted = _by_cluster(cluster, chosen, arguments)
        edit = plan_offsets(opened, wanted, abandon=arguments.abandon_batch)
        return carry_out(arguments, opened, edit)


def _chosen(opened: Opened, arguments: argparse.Namespace) -> dict[str, StreamOffset]:
    """The committed offsets of the sources that are to be moved."""
    found = {
        source.name: source.committed
        for source in opened.checkpoint.sources
        if source.committed is not None and arguments.source in (None, source.name)
    }
    if not found:
        which = f"source {arguments.source!r}" if arguments.source else "source of topics"
        raise InputError(f"{opened.storage.uri}: has no {which} with committed offsets")
    return found


def _selected(offset: StreamOffset, words: list[str]) -> list[TopicPartition]:
    """The partitions that `--topic` words name; all without any. UsageError."""
    if not words:
        return sorted(offset.positions)
    return sorted({where for word in words for where in _named(offset, word)})


def _named(offset: StreamOffset, word: str) -> list[TopicPartition]:
    topic, numbers = topic_word(word)
    return [
        where
        for where in offset.positions
        if where.topic == topic and (numbers is None or where.partition in numbers)
    ]


def _require_named(chosen: Mapping[str, StreamOffset], words: list[str]) -> None:
    """InputError where a word of `--topic` names what no source reads: a typing mistake would
    otherwise leave that partition where it was."""
    for word in words:
        topic, numbers = topic_word(word)
        found = {one.partition for offset in chosen.values() for one in _named(offset, word)}
        if not found:
            raise InputError(f"--topic {word}: the checkpoint has no offset of it")
        if missing := sorted(set(numbers or ()) - found):
            raise InputError(
                f"--topic {word}: the checkpoint has no offset of {topic}-{missing[0]}"
            )


def _by_json(
    chosen: Mapping[str, StreamOffset], arguments: argparse.Namespace, ids: dict[str, str]
) -> dict[str, StreamOffset]:
    from fencepost.spark.checkpoint_edit import with_offsets

    given = given_offsets(arguments.offsets)
    wanted = {}
    for name, offset in chosen.items():
        selected = set(_selected(offset, arguments.topic))
        new = {where: at for where, at in given.items() if where in selected}
        if new:
            wanted[name] = with_offsets(offset, new, ids)
    known = {where for offset in wanted.values() for where in offset.positions}
    if unknown := sorted(set(given) - known):
        raise InputError(f"--offsets: {unknown[0]} is not among the partitions to be moved")
    return wanted


def _by_cluster(
    cluster: Cluster, chosen: Mapping[str, StreamOffset], arguments: argparse.Namespace
) -> dict[str, StreamOffset]:
    """By what the logs have: offsets within them, with ids and epochs of now."""
    from fencepost.arrow.offsets import StreamOffset
    from fencepost.cli.groups_offsets import named_offsets
    from fencepost.spark.checkpoint_edit import with_offsets
    from fencepost.spark.offset_translation import identified, topics_there

    topics = {where.topic for offset in chosen.values() for where in offset.positions}
    there, ids = topics_there(cluster, topics)
    if arguments.offsets is not None:
        wanted = _by_json(chosen, arguments, ids)
        return {name: identified(cluster, offset) for name, offset in wanted.items()}
    wanted = {}
    for name, offset in chosen.items():
        selected = _selected(offset, arguments.topic)
        missing = [where for where in selected if where not in there]
        if missing and not arguments.forget_missing:
            raise InputError(
                f"{missing[0]} does not exist any more: --forget-missing leaves it out"
            )
        selected = [where for where in selected if where in there]
        kept = {one: at for one, at in offset.positions.items() if one not in missing}
        at = {one: kept[one].offset for one in selected}
        new = _shifted(cluster, at, arguments.shift_by) if arguments.to is None else at
        if arguments.to is not None and selected:
            new = named_offsets(cluster, selected, arguments.to, at)
        left = StreamOffset(kept, offset.topic_ids, offset.begins)
        if new or missing:
            wanted[name] = identified(cluster, with_offsets(left, new, ids))
    if not wanted:
        raise InputError("no partition of the query is named")
    return wanted


def _shifted(
    cluster: Cluster, at: dict[TopicPartition, int], step: int
) -> dict[TopicPartition, int]:
    from fencepost.cli.groups_offsets import within_logs

    check_number("--shift-by", step, -INT64_MAX, INT64_MAX)
    return within_logs(cluster, {where: offset + step for where, offset in at.items()})
