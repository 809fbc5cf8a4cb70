"""`fencepost brokers decommission`: a broker without replicas, stopped and unregistered.

Three steps, each of which looks first at what is so already, so the command can be interrupted and
given again: replicas are reassigned to other brokers (KIP-455), the broker is stopped by its
operator, the broker is unregistered (KIP-631). A copy is given up only when the controller has
ended a reassignment, which it does when all new replicas are in sync; a partition whose only
replica in sync is on the broker while that does not run is refused.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from fencepost.cli.brokers_state import check_unregistrable, is_running, quorum_of
from fencepost.cli.cluster_options import (
    INT32_MAX,
    INT64_MAX,
    check_number,
    command,
    finish_cluster_command,
    open_admin,
)
from fencepost.cli.failures import InputError, UsageError
from fencepost.cli.output import print_result, print_views
from fencepost.client.errors import BrokerError, ClientError
from fencepost.client.metadata import TopicPartition
from fencepost.client.retry import Backoff, Deadline
from fencepost.views.view import count
from fencepost.wire.errors import ErrorCode

if TYPE_CHECKING:
    from fencepost.client.admin import Admin
    from fencepost.client.metadata import Node, PartitionInfo
    from fencepost.client.replicas import Reassignment

WAIT_S: Final = 24 * 3600
WAIT_MAX_S: Final = 365 * 24 * 3600
POLL_MS: Final = 500
NAMED: Final = 3
"""Partitions that an error names; the others are counted."""

Plan = dict[TopicPartition, list[int]]


def register(actions: Any) -> None:
    """Add the parser."""
    parser = actions.add_parser(
        "decommission", help="move a broker's replicas away, wait for its stop, unregister it"
    )
    parser.add_argument("broker", type=int, metavar="ID")
    parser.add_argument("--dry-run", action="store_true", help="print what would move, and end")
    parser.add_argument(
        "--brokers", metavar="ID,ID", help="where its replicas go (default: all other brokers)"
    )
    parser.add_argument("--throttle", type=int, metavar="BYTES", help="copy no more in a second")
    parser.add_argument(
        "--wait",
        type=int,
        default=WAIT_S,
        metavar="SECONDS",
        help="for all steps together (default: a day)",
    )
    finish_cluster_command(parser, decommission)


@command
def decommission(arguments: argparse.Namespace) -> int:
    """Take the broker out, or (--dry-run) say what that would take."""
    from fencepost.views.brokers import DecommissionedBroker
    from fencepost.views.partitions import PlannedMove

    check_number("ID", arguments.broker, 0, INT32_MAX)
    check_number("--throttle", arguments.throttle, 1, INT64_MAX)
    check_number("--wait", arguments.wait, 1, WAIT_MAX_S)
    with open_admin(arguments) as admin:
        leaving = _Leaving(admin, arguments)
        if arguments.dry_run:
            plan = [PlannedMove(*where, to) for where, to in sorted(leaving.plan().items())]
            print_views(arguments, PlannedMove, plan)
            return 0
        moved = leaving.move_replicas()
        leaving.wait_for_stop()
        was_there = leaving.unregister()
    id_ = arguments.broker
    sentence = f"broker {id_} is decommissioned"
    if not (was_there or moved):
        sentence = f"nothing to do: broker {id_} is not registered and has no replicas"
    print_result(arguments, DecommissionedBroker(id_, moved, was_there), sentence)
    return 0


class _Leaving:
    """The broker that is to leave, and how far it is. Progress goes to standard error."""

    def __init__(self, admin: Admin, arguments: argparse.Namespace) -> None:
        self._admin = admin
        self._arguments = arguments
        self._id: int = arguments.broker
        self._deadline = Deadline(arguments.wait * 1000)
        self._backoff = Backoff(POLL_MS, POLL_MS)

    # -- replicas --------------------------------------------------------------------------------

    def plan(self, *, is_first: bool = True) -> Plan:
        """New replicas of every partition that has one on the broker and is not on its way
        already. InputError, UsageError where that cannot be; partitions without a leader are left
        out later on, since they may soon have one."""
        current = self._partitions()
        moving = self._admin.list_reassignments()
        on_it = [where for where, info in current.items() if self._id in info.replicas]
        stuck = [where for where in on_it if current[where].leader_id < 0]
        if stuck and is_first:
            raise InputError(
                f"{_named(stuck)}: no leader, so nothing can be copied; start the brokers that were"
                " last in sync first"
            )
        targets = {
            where: moving[where].target if where in moving else info.replicas
            for where, info in current.items()
            if where not in stuck
        }
        found = self._admin.describe_cluster(include_fenced=True)
        usable = {node.node_id: node for node in found.brokers if node.node_id not in found.fenced}
        return replacements(targets, self._id, self._chosen(usable), _racks(found.brokers))

    def _partitions(self) -> dict[TopicPartition, PartitionInfo]:
        """All partitions, internal ones among them."""
        return {
            TopicPartition(topic.name, number): info
            for topic in self._admin.list_topics(include_internal=True)
            for number, info in topic.partitions.items()
        }

    def _chosen(self, usable: Mapping[int, Node]) -> list[int]:
        """Brokers that may get replicas. UsageError."""
        from fencepost.cli.partition_words import broker_ids

        text = self._arguments.brokers
        ids = broker_ids(text, "--brokers") if text else [id_ for id_ in usable if id_ != self._id]
        if wrong := [id_ for id_ in ids if id_ not in usable or id_ == self._id]:
            there = sorted(usable.keys() - {self._id})
            raise UsageError(f"--brokers: {wrong[0]} cannot take replicas; those that can: {there}")
        return ids

    def move_replicas(self) -> int:
        """Have all replicas copied and given up; how many partitions that were. Topics that are
        created meanwhile may get replicas on the broker: those are moved as well."""
        moved: set[TopicPartition] = set()
        shown = ""
        try:
            while True:
                plan = self.plan(is_first=not moved)
                if plan:
                    self._begin(plan)
                moving = self._leaving_moves()
                moved |= plan.keys() | moving.keys()
                on_it = [w for w, one in self._partitions().items() if self._id in one.replicas]
                moved.update(on_it)
                text = f"{len(moved) - len(on_it)} of {count(len(moved), 'partition')} moved"
                text += self._copied_text(moving)
                if moved and text != shown:
                    self._say(text)
                    shown = text
                if not on_it and not moving:
                    return len(moved)
                self._pause(f"{count(len(on_it), 'partition')} still to be moved")
        finally:
            self._remove_throttles()

    def _begin(self, plan: Plan) -> None:
        from fencepost.cli.reassignment_throttles import set_throttles

        if self._arguments.throttle is not None:
            current = {where: one.replicas for where, one in self._partitions().items()}
            moving = self._admin.list_reassignments()
            set_throttles(self._admin, current, plan, moving, self._arguments.throttle)
        for where, outcome in self._admin.alter_reassignments(plan).items():
            if outcome.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:  # deleted meanwhile
                outcome.check(f"cannot move {where}")

    def _leaving_moves(self) -> dict[TopicPartition, Reassignment]:
        """Moves under way that take a replica from the broker."""
        moving = self._admin.list_reassignments()
        return {where: one for where, one in moving.items() if self._id in one.removing}

    def _copied_text(self, moving: Mapping[TopicPartition, Reassignment]) -> str:
        """How many bytes the new replicas have of those under way, as far as brokers tell."""
        if not moving:
            return ""
        sizes: dict[tuple[int, TopicPartition], int] = {}
        for id_ in sorted({id_ for one in moving.values() for id_ in one.replicas}):
            try:
                directories = self._admin.describe_log_dirs(id_, moving)
            except ClientError:  # a broker that does not run
                continue
            for directory in directories:
                for where, replica in directory.replicas.items():
                    sizes[id_, where] = replica.size_bytes
        copied = total = 0
        for where, one in moving.items():
            whole = max(sizes.get((id_, where), 0) for id_ in one.replicas)
            total += whole * len(one.adding)
            copied += sum(min(whole, sizes.get((id_, where), 0)) for id_ in one.adding)
        return f", {copied >> 20} of {total >> 20} MiB of the others copied"

    def _remove_throttles(self) -> None:
        """Of all topics, since an earlier run may have set some; not while anything moves: the next
        run with --throttle removes them then."""
        from fencepost.cli.reassignment_throttles import clear_throttles

        if self._arguments.throttle is None or self._admin.list_reassignments():
            return
        topics = {where.topic for where in self._partitions()}
        clear_throttles(self._admin, self._admin.cluster.metadata.nodes, topics)

    # -- the broker ------------------------------------------------------------------------------

    def wait_for_stop(self) -> None:
        """Say that the broker may be stopped, if it runs, and wait until it does not."""
        is_told = False
        while is_running(self._admin.describe_cluster(include_fenced=True), self._id):
            if not is_told:
                self._say(f"no replica is on broker {self._id} any more: stop it now{self._vote()}")
                is_told = True
            self._pause(f"broker {self._id} still runs")

    def _vote(self) -> str:
        """A combined node votes in the metadata quorum, and its vote would be missed."""
        quorum = quorum_of(self._arguments)
        if quorum is None or self._id not in {voter.node_id for voter in quorum.voters}:
            return ""
        return (
            f" (it is also a voter of the metadata quorum: `fencepost quorum remove-voter --id"
            f" {self._id}` comes first)"
        )

    def unregister(self) -> bool:
        """Have the cluster forget the broker; whether it knew it. InputError."""
        check_unregistrable(self._admin, self._id)
        try:
            self._admin.unregister_broker(self._id)
        except BrokerError as error:
            if error.code != ErrorCode.BROKER_ID_NOT_REGISTERED:
                raise
            return False
        return True

    # -- waiting ---------------------------------------------------------------------------------

    def _say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def _pause(self, what: str) -> None:
        if not self._backoff.sleep(self._deadline):
            raise InputError(
                f"{what} after {self._arguments.wait} s; the same command goes on from here"
            )


def _racks(nodes: Iterable[Node]) -> dict[int, str | None]:
    return {node.node_id: node.rack for node in nodes}


def _named(partitions: Sequence[TopicPartition]) -> str:
    named = ", ".join(map(str, sorted(partitions)[:NAMED]))
    more = len(partitions) - NAMED
    return f"{named} and {more} more" if more > 0 else named


def replacements(
    targets: Mapping[TopicPartition, Sequence[int]],
    leaving: int,
    brokers: Iterable[int],
    racks: Mapping[int, str | None],
) -> Plan:
    """Replicas of every partition that is to be on `leaving`, with another of the brokers in its
    place: in the rack that has fewest of the partition, then with the fewest replicas. InputError
    if there is none."""
    wanted = sorted(brokers)
    load = Counter(dict.fromkeys(wanted, 0))
    for replicas in targets.values():
        load.update(id_ for id_ in replicas if id_ in load)
    plan: Plan = {}
    too_many: list[TopicPartition] = []
    for where, replicas in sorted(targets.items()):
        if leaving not in replicas:
            continue
        in_racks = Counter(racks.get(id_) for id_ in replicas if id_ != leaving)
        free = [id_ for id_ in wanted if id_ not in replicas]
        if not free:
            too_many.append(where)
            continue
        chosen = min(free, key=lambda id_: (in_racks[racks.get(id_)], load[id_], id_))
        load[chosen] += 1
        plan[where] = [chosen if id_ == leaving else id_ for id_ in replicas]
    if too_many:
        raise InputError(
            f"{_named(too_many)}: every broker that may take its replica has one already; give it"
            " fewer replicas first (`fencepost reassign generate --replication-factor N`)"
        )
    return plan
