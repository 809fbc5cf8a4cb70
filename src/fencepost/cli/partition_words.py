"""Partitions on the command line, and what became of each of them."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fencepost.cli.cluster_options import partition_of
from fencepost.cli.commands import add_repeatable
from fencepost.cli.failures import UsageError
from fencepost.cli.output import print_views
from fencepost.client.metadata import TopicPartition
from fencepost.wire.errors import error_name

if TYPE_CHECKING:
    from fencepost.client.admin import Admin
    from fencepost.client.replicas import Outcome
    from fencepost.views.view import View


def add_topic_option(parser: argparse._ActionsContainer) -> None:
    """Add --topic, whose words `topic_word` reads."""
    add_repeatable(
        parser,
        "--topic",
        metavar="NAME[:N,N]",
        help="only this topic, or these partitions of it (repeatable)",
    )


def topic_word(word: str) -> tuple[str, list[int] | None]:
    """`TOPIC` or `TOPIC:N,N` as a topic, and partitions of it or None for all. UsageError."""
    topic, colon, text = word.partition(":")
    if not colon:
        return topic, None
    if not all(one.isascii() and one.isdecimal() for one in text.split(",")):
        raise UsageError(f"{word!r}: must be TOPIC or TOPIC:0,1")
    return topic, [int(one) for one in text.split(",")]


def existing_partitions(admin: Admin, words: Iterable[str]) -> list[TopicPartition]:
    """`TOPIC` (all its partitions) and `TOPIC:PARTITION` words. UsageError, UnknownTopic."""
    found: dict[TopicPartition, None] = {}
    for word in words:
        if ":" in word:
            where = partition_of(word, "PARTITION")
            if where.partition not in admin.describe_topic(where.topic).partitions:
                raise UsageError(f"topic {where.topic} has no partition {where.partition}")
            found[where] = None
        else:
            ids = admin.describe_topic(word).partition_ids
            found.update(dict.fromkeys(TopicPartition(word, number) for number in ids))
    return list(found)


def existing_or_all_partitions(admin: Admin, words: Sequence[str]) -> list[TopicPartition]:
    """As `existing_partitions`; without words those of all topics, internal ones among them."""
    if words:
        return existing_partitions(admin, words)
    return [
        TopicPartition(topic.name, number)
        for topic in admin.list_topics(include_internal=True)
        for number in topic.partition_ids
    ]


def broker_ids(text: str, option: str) -> list[int]:
    """ "1,2,3" as ids of brokers, each at most once. UsageError."""
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() for word in words) or len(set(words)) < len(words):
        raise UsageError(f"{option} {text!r}: must be different broker ids like 1,2,3")
    return [int(word) for word in words]


def print_outcomes(
    arguments: argparse.Namespace,
    outcomes: Mapping[TopicPartition, Outcome],
    done: str,
    *,
    kind: type[View] | None = None,
    extra: Mapping[TopicPartition, Any] | None = None,
) -> int:
    """A row per partition, `done` if it went well; exit code 1 unless all did. `extra` is what
    views of the `kind` have between the partition and the result."""
    from fencepost.views.partitions import PartitionOutcome

    kind = kind or PartitionOutcome
    views = [
        kind(
            *where,
            *(() if extra is None else (extra.get(where),)),
            done if outcome.is_done else error_name(outcome.error_code),
            outcome.message,
        )
        for where, outcome in sorted(outcomes.items())
    ]
    print_views(arguments, kind, views)
    return 0 if all(outcome.is_done for outcome in outcomes.values()) else 1
