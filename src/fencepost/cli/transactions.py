"""`fencepost transactions`: transactional ids, producers of partitions, transactions that hang."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from fencepost.cli.cluster_options import (
    INT16_MAX,
    INT32_MAX,
    INT64_MAX,
    check_number,
    command,
    finish_cluster_command,
    open_admin,
    partition_of,
)
from fencepost.cli.commands import add_actions, add_repeatable
from fencepost.cli.failures import UsageError
from fencepost.cli.output import print_json, print_result, print_table, print_views
from fencepost.cli.times import now_ms
from fencepost.client.errors import ClientError
from fencepost.views.tables import escaped
from fencepost.views.times import iso_time

if TYPE_CHECKING:
    from fencepost.client.admin import Admin
    from fencepost.client.metadata import TopicPartition
    from fencepost.client.stable_offset import OpenTransaction
    from fencepost.client.transaction_admin import PartitionProducer, TransactionDescription

MINUTE_MS = 60_000
MAX_TIMEOUT_MIN = 15
"""What `transaction.max.timeout.ms` is unless set."""
GRACE_MIN = 5
"""For the coordinator, beyond that, as kafka-transactions has it."""
EXAMPLES = """\
examples:
  fencepost transactions explain orders
  fencepost transactions list --state Ongoing --running-longer-than-ms 60000
  fencepost transactions describe billing-1
  fencepost transactions describe-producers orders:0
  fencepost transactions find-hanging
  fencepost transactions abort orders:0 --start-offset 4711
  fencepost transactions force-terminate billing-1
"""
STATES = "Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort"


def register(subparsers: Any) -> None:
    """Add the parser of `fencepost transactions`."""
    from fencepost.cli import transactions_explain

    parser = subparsers.add_parser("transactions", description="Transactions.", epilog=EXAMPLES)
    actions = add_actions(parser)
    transactions_explain.register(actions)

    listing = actions.add_parser("list", help="transactional ids of all coordinators")
    add_repeatable(listing, "--state", metavar="STATE", help=f"{STATES} (repeatable)")
    add_repeatable(listing, "--producer-id", type=int, metavar="ID", help="(repeatable)")
    listing.add_argument(
        "--running-longer-than-ms", type=int, metavar="MS", help="that began longer ago"
    )
    listing.add_argument("--pattern", metavar="REGEX", help="whose whole id matches")
    finish_cluster_command(listing, list_transactions)

    describing = actions.add_parser("describe", help="what the coordinator knows of an id")
    describing.add_argument("transactional_id", metavar="TRANSACTIONAL-ID")
    finish_cluster_command(describing, describe)

    producers = actions.add_parser(
        "describe-producers", help="producers that the leader of a partition remembers"
    )
    producers.add_argument("partition", metavar="TOPIC:PARTITION")
    producers.add_argument(
        "--broker", type=int, metavar="ID", help="ask this broker with a replica, not the leader"
    )
    finish_cluster_command(producers, describe_producers)
    _register_hanging(actions)


def _register_hanging(actions: Any) -> None:
    finding = actions.add_parser(
        "find-hanging",
        help="transactions that no coordinator will end",
        description="Transactions that are open in a partition and that no coordinator knows of"
        " (hanging: `abort` ends them), and transactions that are decided and whose marker a"
        " partition refuses (refused: `describe` says why, and until when).",
    )
    finding.add_argument(
        "partitions", nargs="*", metavar="PARTITION", help="TOPIC or TOPIC:PARTITION, default: all"
    )
    finding.add_argument(
        "--max-transaction-timeout",
        type=int,
        default=MAX_TIMEOUT_MIN,
        metavar="MINUTES",
        help="the brokers' transaction.max.timeout.ms; what wrote in that time and"
        f" {GRACE_MIN} minutes more is not looked at (default: {MAX_TIMEOUT_MIN})",
    )
    finish_cluster_command(finding, find_hanging)

    aborting = actions.add_parser(
        "abort",
        help="write an abort marker into one partition, past the coordinator",
        description="For transactions that hang. A transaction that is not hanging is refused:"
        " `force-terminate` ends it in all its partitions.",
    )
    aborting.add_argument("partition", metavar="TOPIC:PARTITION")
    aborting.add_argument(
        "--start-offset", type=int, metavar="N", help="where the transaction begins"
    )
    aborting.add_argument("--producer-id", type=int, metavar="ID", help="with both epochs, instead")
    aborting.add_argument("--producer-epoch", type=int, metavar="N")
    aborting.add_argument("--coordinator-epoch", type=int, metavar="N")
    aborting.add_argument(
        "--force",
        action="store_true",
        help="although a coordinator knows the transaction, or the partition knows none",
    )
    finish_cluster_command(aborting, abort)

    terminating = actions.add_parser(
        "force-terminate", help="abort the transaction of an id, and fence its producer"
    )
    terminating.add_argument("transactional_id", metavar="TRANSACTIONAL-ID")
    finish_cluster_command(terminating, force_terminate)


@command
def list_transactions(arguments: argparse.Namespace) -> int:
    """The ids that match every filter."""
    from fencepost.views.transactions import TransactionListed

    for state in arguments.state:
        if state.lower() in STATES.lower().split(", ") and state not in STATES.split(", "):
            raise UsageError(f"--state {state}: states are written {STATES}")
    check_number("--running-longer-than-ms", arguments.running_longer_than_ms, 0, INT64_MAX)
    for producer_id in arguments.producer_id:
        check_number("--producer-id", producer_id, 0, INT64_MAX)
    with open_admin(arguments) as admin:
        found = admin.list_transactions(
            states=arguments.state,
            producer_ids=arguments.producer_id,
            duration_ms=arguments.running_longer_than_ms,
            pattern=arguments.pattern,
        )
    print_views(arguments, TransactionListed, [TransactionListed.of(one) for one in found])
    return 0


@command
def describe(arguments: argparse.Namespace) -> int:
    """State, producer, and the partitions in the transaction."""
    from fencepost.views.transactions import described_transaction, refusal_of

    with open_admin(arguments) as admin:
        found = admin.describe_transaction(arguments.transactional_id)
        refusing = _refusing(admin, found)
    if arguments.json:
        print_json(described_transaction(found, refusing))
        return 0
    print(
        f"transactional id {escaped(found.transactional_id)}  state {found.state}  "
        f"coordinator {found.coordinator_id}  producer {found.producer_id} "
        f"epoch {found.producer_epoch}  timeout {found.timeout_ms} ms"
    )
    if found.start_ms >= 0:
        running_ms = max(0, now_ms() - found.start_ms)
        began = "the last transaction began" if found.is_over else "began"
        print(f"{began} {iso_time(found.start_ms)}, {running_ms} ms ago")
    if found.partitions:
        print_table(("topic", "partition"), found.partitions)
    for one in refusing:
        for line in refusal_of(one):
            print(line)
    return 0


def _refusing(admin: Admin, found: TransactionDescription) -> list[OpenTransaction]:
    """The partitions that refuse the marker; none if their leaders cannot be asked just now."""
    from fencepost.client.stable_offset import refused_by

    try:
        return refused_by(admin, found)
    except ClientError as error:
        print(f"warning: not known whether markers are refused: {error}", file=sys.stderr)
        return []


@command
def describe_producers(arguments: argparse.Namespace) -> int:
    """The producers of one partition, those with an open transaction and others."""
    from fencepost.views.transactions import ProducerView

    partition = partition_of(arguments.partition, "PARTITION")
    check_number("--broker", arguments.broker, 0, INT32_MAX)
    with open_admin(arguments) as admin:
        found = admin.describe_producers([partition], broker=arguments.broker)[partition]
    print_views(arguments, ProducerView, [ProducerView.of(one) for one in found])
    return 0


@command
def find_hanging(arguments: argparse.Namespace) -> int:
    """Old open transactions that no coordinator knows of, and ends that partitions refuse."""
    from fencepost.cli.partition_words import existing_or_all_partitions
    from fencepost.client.stable_offset import Verdict, open_transactions, refused_ends
    from fencepost.views.transactions import OpenTransactionView

    check_number("--max-transaction-timeout", arguments.max_transaction_timeout, 0, INT32_MAX)
    older_than_ms = (arguments.max_transaction_timeout + GRACE_MIN) * MINUTE_MS
    with open_admin(arguments) as admin:
        chosen = existing_or_all_partitions(admin, arguments.partitions)
        found = [
            one
            for one in open_transactions(admin, chosen, now_ms(), older_than_ms=older_than_ms)
            if one.verdict is Verdict.HANGING
        ]
        found += refused_ends(admin, chosen)
    views = [OpenTransactionView.of(one) for one in found]
    print_views(arguments, OpenTransactionView, views)
    if not found and not arguments.json:
        print(
            "(a transaction whose producer wrote in the last"
            f" {arguments.max_transaction_timeout + GRACE_MIN} minutes is not looked at;"
            " `fencepost transactions explain` looks at all)",
            file=sys.stderr,
        )
    return 0


@command
def abort(arguments: argparse.Namespace) -> int:
    """Write the marker; the transaction is found by its start offset, or taken as given."""
    from fencepost.views.transactions import AbortedTransaction

    partition = partition_of(arguments.partition, "PARTITION")
    _check_abort(arguments)
    with open_admin(arguments) as admin:
        producer = _producer_to_abort(admin, partition, arguments)
        if not arguments.force:
            _refuse_known(admin, partition, producer)
        admin.abort_in_partition(
            partition, producer.producer_id, producer.producer_epoch, producer.coordinator_epoch
        )
    id_ = producer.producer_id
    sentence = f"wrote the marker that aborts producer {id_} in {partition}"
    print_result(arguments, AbortedTransaction(arguments.partition, id_), sentence)
    return 0


def _check_abort(arguments: argparse.Namespace) -> None:
    """The transaction is named in one way, and whole. UsageError."""
    given = (arguments.producer_id, arguments.producer_epoch, arguments.coordinator_epoch)
    if (arguments.start_offset is None) == (given == (None, None, None)):
        raise UsageError(
            "either --start-offset, or --producer-id, --producer-epoch and --coordinator-epoch"
        )
    if arguments.start_offset is None and None in given:
        raise UsageError("--producer-id, --producer-epoch and --coordinator-epoch go together")
    check_number("--start-offset", arguments.start_offset, 0, INT64_MAX)
    check_number("--producer-id", arguments.producer_id, 0, INT64_MAX)
    check_number("--producer-epoch", arguments.producer_epoch, 0, INT16_MAX)
    check_number("--coordinator-epoch", arguments.coordinator_epoch, -1, INT32_MAX)


def _producer_to_abort(
    admin: Admin, partition: TopicPartition, arguments: argparse.Namespace
) -> PartitionProducer:
    from fencepost.client.transaction_admin import PartitionProducer

    described = admin.describe_producers([partition])[partition]
    if arguments.start_offset is None:
        found = PartitionProducer(
            arguments.producer_id, arguments.producer_epoch, -1, -1, arguments.coordinator_epoch, -1
        )
        _check_coordinator_epoch(admin, found, described)
        is_open = any(one.producer_id == found.producer_id and one.is_open for one in described)
        if not is_open and not arguments.force:
            raise ClientError(
                f"{partition} has no open transaction of producer {found.producer_id};"
                " --force writes the marker nevertheless"
            )
        return found
    for one in described:
        if one.start_offset == arguments.start_offset:
            return one
    raise ClientError(f"{partition} has no open transaction from offset {arguments.start_offset}")


def _check_coordinator_epoch(
    admin: Admin, producer: PartitionProducer, described: list[PartitionProducer]
) -> None:
    """ClientError for an epoch that no coordinator has: the partition would refuse the producer's
    own coordinator from then on."""
    known = [one for one in described if one.producer_id == producer.producer_id]
    seen = max((one.coordinator_epoch for one in known), default=-1)
    highest = max(0, seen, admin.newest_coordinator_epoch())
    if producer.coordinator_epoch > highest:
        raise ClientError(
            f"--coordinator-epoch {producer.coordinator_epoch}: no coordinator has an epoch above"
            f" {highest}; `describe-producers` shows the one that the partition knows"
        )


def _refuse_known(admin: Admin, partition: TopicPartition, producer: PartitionProducer) -> None:
    """ClientError for a transaction that does not hang: readers could miss its records."""
    from fencepost.client.stable_offset import Verdict, judge

    known = admin.transactions_of([producer.producer_id]).get(producer.producer_id)
    if known is None or judge(partition, producer, known, now_ms()) is Verdict.HANGING:
        return
    raise ClientError(
        f"{known.transactional_id} has this transaction and is {known.state}, so its coordinator"
        f" will end it; `fencepost transactions force-terminate {known.transactional_id}` aborts it"
        " in all partitions, --force writes the marker into this one nevertheless"
    )


@command
def force_terminate(arguments: argparse.Namespace) -> int:
    """As a new producer of the id would."""
    from fencepost.views.transactions import TerminatedTransaction

    with open_admin(arguments) as admin:
        before = admin.force_terminate(arguments.transactional_id)
    was_open = before.state == "Ongoing"
    what = "its transaction is aborted" if was_open else "it had no open transaction"
    sentence = f"{escaped(arguments.transactional_id)}: {what}, its producer is fenced"
    print_result(arguments, TerminatedTransaction(arguments.transactional_id, was_open), sentence)
    return 0
