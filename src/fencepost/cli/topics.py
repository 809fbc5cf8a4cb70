"""`fencepost topics`: list, create, describe, delete topics, and add partitions."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from fencepost.cli.cluster_options import (
    INT16_MAX,
    INT32_MAX,
    check_number,
    command,
    finish_cluster_command,
    open_admin,
)
from fencepost.cli.commands import add_actions, add_repeatable
from fencepost.cli.failures import UsageError
from fencepost.cli.key_values import pairs
from fencepost.cli.output import print_json, print_result
from fencepost.cli.topics_describe import add_describe

EXAMPLES = """\
examples:
  fencepost topics create orders --partitions 6 --config cleanup.policy=compact
  fencepost topics create placed --assignment 1:2,2:1     (replicas of each partition)
  fencepost topics list --json
  fencepost topics describe orders
  fencepost topics describe --under-replicated            (of all topics, those partitions)
  fencepost topics alter orders --partitions 12
  fencepost topics delete orders
  fencepost topics match 'orders.*'     (what consumers with this pattern would read)
"""


MATCHING = """\
With group.protocol=consumer the group's coordinator matches the pattern of a subscription, by the
syntax of RE2, against whole names: '^orders' matches the topic 'orders' alone. This lists the
topics that a pattern matches, and those of which it matches a part only.
"""


def register(subparsers: Any) -> None:
    """Add the parser of `fencepost topics`."""
    parser = subparsers.add_parser("topics", description="Manage topics.", epilog=EXAMPLES)
    actions = add_actions(parser)

    listing = actions.add_parser("list", help="names of topics")
    listing.add_argument("--internal", action="store_true", help="also Kafka's own topics")
    finish_cluster_command(listing, list_topics)

    creating = actions.add_parser("create", help="create a topic")
    creating.add_argument("name")
    creating.add_argument("--partitions", type=int, metavar="N", help="default: the broker's")
    creating.add_argument("--replication-factor", type=int, metavar="N", help="likewise")
    creating.add_argument(
        "--assignment", metavar="A:B,C:D", help="broker ids of each partition's replicas"
    )
    add_repeatable(creating, "--config", metavar="KEY=VALUE", help="a topic config")
    creating.add_argument("--if-not-exists", action="store_true", help="be content if it is there")
    creating.add_argument("--validate-only", action="store_true", help="check, do not create")
    finish_cluster_command(creating, create_topic)

    add_describe(actions)

    altering = actions.add_parser("alter", help="add partitions")
    altering.add_argument("name")
    altering.add_argument("--partitions", type=int, required=True, metavar="N", help="new total")
    finish_cluster_command(altering, alter_topic)

    matching = actions.add_parser(
        "match", help="which topics a pattern of a subscription matches", description=MATCHING
    )
    matching.add_argument("pattern", metavar="REGEX")
    finish_cluster_command(matching, match_topics)

    deleting = actions.add_parser("delete", help="delete topics and all their records")
    deleting.add_argument("names", nargs="+", metavar="NAME")
    deleting.add_argument("--if-exists", action="store_true", help="be content if there is none")
    finish_cluster_command(deleting, delete_topics)


@command
def list_topics(arguments: argparse.Namespace) -> int:
    """Names only."""
    from fencepost.views.topics import ListedTopic

    with open_admin(arguments) as admin:
        topics = admin.list_topics(include_internal=arguments.internal)
    if arguments.json:
        print_json([ListedTopic.of(topic) for topic in topics])
    else:
        for topic in topics:
            print(topic.name)
    return 0


@command
def create_topic(arguments: argparse.Namespace) -> int:
    """One topic; prints its id."""
    from fencepost.client.admin import BROKER_DEFAULT
    from fencepost.client.errors import BrokerError
    from fencepost.views.topics import NewTopic
    from fencepost.wire.errors import ErrorCode

    assignments = _assignments(arguments)
    check_number("--partitions", arguments.partitions, 1, INT32_MAX)
    check_number("--replication-factor", arguments.replication_factor, 1, INT16_MAX)
    with open_admin(arguments) as admin:
        try:
            created = admin.create_topic(
                arguments.name,
                arguments.partitions or BROKER_DEFAULT,
                arguments.replication_factor or BROKER_DEFAULT,
                configs=pairs(arguments.config, "--config"),
                assignments=assignments,
                validate_only=arguments.validate_only,
            )
        except BrokerError as error:
            if arguments.if_not_exists and error.code == ErrorCode.TOPIC_ALREADY_EXISTS:
                print(f"topic {arguments.name} exists already")
                return 0
            raise
    sentence = f"created topic {created.name} with id {created.topic_id}"
    if arguments.validate_only:
        sentence = f"topic {created.name} could be created"
    print_result(arguments, NewTopic.of(created), sentence)
    return 0


def _assignments(arguments: argparse.Namespace) -> dict[int, list[int]] | None:
    text = arguments.assignment
    if text is None:
        return None
    if arguments.partitions is not None or arguments.replication_factor is not None:
        raise UsageError("--assignment says both --partitions and --replication-factor")
    try:
        return {
            index: [int(broker) for broker in replicas.split(":")]
            for index, replicas in enumerate(text.split(","))
        }
    except ValueError:
        raise UsageError(f"--assignment {text!r}: must be broker ids like 1:2,2:3") from None


@command
def alter_topic(arguments: argparse.Namespace) -> int:
    """More partitions."""
    from fencepost.views.topics import GrownTopic

    check_number("--partitions", arguments.partitions, 1, INT32_MAX)
    with open_admin(arguments) as admin:
        admin.create_partitions(arguments.name, arguments.partitions)
    grown = GrownTopic(arguments.name, arguments.partitions)
    print_result(
        arguments, grown, f"topic {arguments.name} has {arguments.partitions} partitions now"
    )
    return 0


@command
def match_topics(arguments: argparse.Namespace) -> int:
    """The names that a pattern matches, and those that it nearly does."""
    from fencepost.client.topic_patterns import match_pattern
    from fencepost.views.topics import TopicsMatched

    with open_admin(arguments) as admin:
        topics = admin.list_topics(include_internal=True)
    found = TopicsMatched.of(
        arguments.pattern, match_pattern(arguments.pattern, [topic.name for topic in topics])
    )
    if arguments.json:
        print_json(found)
        return 0
    print(*found.matched or ["(no topic matches)"], sep="\n")
    for line in found.warning:
        print(line, file=sys.stderr)
    return 0


@command
def delete_topics(arguments: argparse.Namespace) -> int:
    """One after the other; stops at the first that cannot be deleted."""
    from fencepost.client.errors import UnknownTopic
    from fencepost.views.topics import DeletedTopics

    deleted = []
    with open_admin(arguments) as admin:
        for name in arguments.names:
            try:
                admin.delete_topic(name)
            except UnknownTopic:
                if not arguments.if_exists:
                    raise
                continue
            deleted.append(name)
            if not arguments.json:
                print(f"deleted topic {name}")
    if arguments.json:
        print_json(DeletedTopics(deleted))
    return 0
