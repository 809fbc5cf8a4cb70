"""`fencepost reassign`: move partitions to other brokers (KIP-455).

Plans are JSON as kafka-reassign-partitions reads and writes them, so either tool can go on with the
other's. `generate` makes one, `execute` begins it, `verify` tells how far it is, `cancel` calls it
off, `list` shows whatever is under way.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fencepost.cli.cluster_options import (
    INT16_MAX,
    INT64_MAX,
    check_number,
    command,
    finish_cluster_command,
    open_admin,
    partition_of,
)
from fencepost.cli.commands import add_actions, add_repeatable
from fencepost.cli.failures import InputError, UsageError
from fencepost.cli.output import print_json, print_views
from fencepost.cli.partition_files import read_partition_file
from fencepost.cli.partition_words import broker_ids, existing_partitions, print_outcomes
from fencepost.client.metadata import TopicPartition
from fencepost.views.json_documents import json_text
from fencepost.views.reassignments import PlanView
from fencepost.views.view import count

if TYPE_CHECKING:
    from fencepost.client.admin import Admin
    from fencepost.client.replicas import Reassignment

WAIT_S = 3600.0
POLL_MS = 500
DONE, MOVING, OTHERWISE, GONE = "done", "in progress", "elsewhere", "no such partition"

EXAMPLES = """\
A PLAN is a JSON file as kafka-reassign-partitions has it, or - for standard input. Without one,
--move TOPIC:PARTITION=BROKER,BROKER says the same, preferred leader first.

examples:
  fencepost reassign generate orders --brokers 1,2,3 > plan.json
  fencepost reassign execute plan.json --save-current before.json --wait
  fencepost reassign execute --move orders:0=2,3 --throttle 50000000
  fencepost reassign verify plan.json                     (exit code 1 until all is done)
  fencepost reassign list
  fencepost reassign cancel orders:0
  fencepost reassign execute before.json                  (back to where they were)
"""


def register(subparsers: Any) -> None:
    """Add the parser of `fencepost reassign`."""
    parser = subparsers.add_parser(
        "reassign", description="Move partitions to other brokers.", epilog=EXAMPLES
    )
    actions = add_actions(parser)
    generating = actions.add_parser("generate", help="print a plan that spreads replicas evenly")
    generating.add_argument("topics", nargs="*", metavar="TOPIC", help="default: all topics")
    generating.add_argument(
        "--brokers", metavar="ID,ID", help="where replicas may be (default: all brokers)"
    )
    generating.add_argument("--replication-factor", type=int, metavar="N", help="default: as it is")
    finish_cluster_command(generating, generate)

    executing = actions.add_parser("execute", help="begin moves, which replace earlier ones")
    _add_plan(executing)
    executing.add_argument("--save-current", type=Path, metavar="FILE", help="a plan to go back")
    executing.add_argument(
        "--keep-replication-factor",
        action="store_true",
        help="refuse to give a partition more or fewer replicas (KIP-860)",
    )
    executing.add_argument(
        "--throttle", type=int, metavar="BYTES", help="copy no more in a second, until `verify`"
    )
    executing.add_argument(
        "--wait", action="store_true", help="until all is done; throttles are removed then"
    )
    finish_cluster_command(executing, execute)

    verifying = actions.add_parser("verify", help="how far a plan is; exit code 1 until it is done")
    _add_plan(verifying)
    _add_preserve_throttles(verifying)
    finish_cluster_command(verifying, verify)

    cancelling = actions.add_parser("cancel", help="call moves off")
    cancelling.add_argument("partitions", nargs="*", metavar="PARTITION", help="TOPIC or TOPIC:N")
    cancelling.add_argument("--plan", type=Path, metavar="PLAN", help="those of a plan")
    cancelling.add_argument("--all", action="store_true", help="all that are under way")
    _add_preserve_throttles(cancelling)
    finish_cluster_command(cancelling, cancel)

    finish_cluster_command(actions.add_parser("list", help="moves under way"), list_moves)


def _add_preserve_throttles(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--preserve-throttles",
        action="store_true",
        help="leave what throttles replication, which is removed when nothing moves any more",
    )


def _add_plan(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plan", nargs="?", type=Path, metavar="PLAN", help="a JSON file, or -")
    add_repeatable(parser, "--move", metavar="T:P=ID,ID", help="instead of a plan; may be repeated")


def _plan(arguments: argparse.Namespace) -> dict[TopicPartition, list[int]]:
    """What the command line or its file says; `generate` makes an empty plan where nothing is to
    move. UsageError, InputError."""
    if bool(arguments.move) == (arguments.plan is not None):
        raise UsageError("name a plan, or --move partitions (one for each --move), not both")
    if arguments.plan is None:
        words = [text.rpartition("=") for text in arguments.move]
        return {partition_of(where, "--move"): broker_ids(ids, "--move") for where, _, ids in words}
    plan = read_partition_file(arguments.plan, "replicas", may_be_empty=True)
    for where, replicas in plan.items():
        if (
            not isinstance(replicas, list)
            or not replicas
            or any(type(id_) is not int or not 0 <= id_ < 1 << 31 for id_ in replicas)
            or len(set(replicas)) < len(replicas)
        ):
            raise InputError(
                f"{arguments.plan}: {where}: replicas must be different broker ids, not"
                f" {replicas!r}"
            )
    return plan


@command
def generate(arguments: argparse.Namespace) -> int:
    """Print a plan; what it comes to goes to standard error."""
    from fencepost.cli.reassignment_plan import PlanError, make_plan

    check_number("--replication-factor", arguments.replication_factor, 1, INT16_MAX)
    with open_admin(arguments) as admin:
        current = _current(admin, arguments.topics)
        nodes = admin.cluster.metadata.nodes
        brokers = broker_ids(arguments.brokers, "--brokers") if arguments.brokers else list(nodes)
        unknown = sorted(set(brokers) - set(nodes))
        if unknown:
            raise UsageError(f"--brokers: no broker {unknown[0]}; there are {sorted(nodes)}")
    try:
        plan = make_plan(
            current,
            brokers,
            racks={id_: node.rack for id_, node in nodes.items()},
            replication_factor=arguments.replication_factor,
        )
    except PlanError as error:
        raise UsageError(str(error)) from None
    changed = {where: ids for where, ids in plan.items() if ids != list(current[where])}
    print_json(PlanView.of(changed))
    copies = sum(len(set(ids) - set(current[where])) for where, ids in changed.items())
    print(
        f"{len(changed)} of {count(len(plan), 'partition')} to change,"
        f" {count(copies, 'replica')} to be copied",
        file=sys.stderr,
    )
    return 0


def _current(admin: Admin, topics: Sequence[str]) -> dict[TopicPartition, tuple[int, ...]]:
    """Where partitions are now; of all topics, also internal ones, if none is named."""
    names = topics or [topic.name for topic in admin.list_topics(include_internal=True)]
    found = {}
    for name in names:
        for number, info in admin.describe_topic(name).partitions.items():
            found[TopicPartition(name, number)] = info.replicas
    return found


@command
def execute(arguments: argparse.Namespace) -> int:
    """Begin; says of each partition whether its move is recorded, and waits if asked to."""
    from fencepost.cli.reassignment_throttles import set_throttles
    from fencepost.views.partitions import BegunMove

    plan = _plan(arguments)
    check_number("--throttle", arguments.throttle, 1, INT64_MAX)
    if not plan:
        return _nothing_to_move(arguments)
    with open_admin(arguments) as admin:
        if arguments.save_current is not None or arguments.throttle is not None:
            current = _current(admin, sorted({where.topic for where in plan}))
            if arguments.save_current is not None:
                _save(arguments.save_current, {w: r for w, r in current.items() if w in plan})
            if arguments.throttle is not None:
                moving = admin.list_reassignments()
                set_throttles(admin, current, plan, moving, arguments.throttle)
        outcomes = admin.alter_reassignments(
            plan, allow_replication_factor_change=not arguments.keep_replication_factor
        )
        code = print_outcomes(arguments, outcomes, "begun", kind=BegunMove, extra=plan)
        if arguments.wait and code == 0:
            code = _wait(admin, plan)
            if arguments.throttle is not None:
                _remove_throttles(admin, {where.topic for where in plan})
    return code


def _nothing_to_move(arguments: argparse.Namespace) -> int:
    """An empty plan is done already."""
    if arguments.json:
        print_json([])
    else:
        print(f"{arguments.plan}: the plan is empty, nothing to move", file=sys.stderr)
    return 0


def _remove_throttles(admin: Admin, topics: Iterable[str]) -> None:
    """What throttles replication goes, unless something moves that it may be for.

    Of brokers that run; what is removed is told on standard error.
    """
    from fencepost.cli.reassignment_throttles import clear_throttles

    if admin.list_reassignments():
        return
    cleared = clear_throttles(admin, admin.cluster.metadata.nodes, topics)
    if cleared:
        print(f"throttles removed: {', '.join(cleared)}", file=sys.stderr)


def _save(path: Path, current: Mapping[TopicPartition, Sequence[int]]) -> None:
    """Before anything moves; an earlier file is not replaced. InputError."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(f"{json_text(PlanView.of(current))}\n")
    except OSError as error:
        raise InputError(f"--save-current {path}: {error.strerror}") from error


def _wait(admin: Admin, plan: Mapping[TopicPartition, Sequence[int]]) -> int:
    """Until nothing of the plan moves any more; progress goes to standard error."""
    from fencepost.client.retry import Backoff, Deadline

    deadline, backoff = Deadline(WAIT_S * 1000), Backoff(POLL_MS, POLL_MS)
    shown = -1
    while True:
        left = len(admin.list_reassignments(plan))
        if left != shown:
            print(f"{len(plan) - left} of {len(plan)} partitions have moved", file=sys.stderr)
            shown = left
        if not left:
            return 0
        if not backoff.sleep(deadline):
            raise InputError(f"{left} partitions still move after {WAIT_S:.0f} s; see `verify`")


@command
def verify(arguments: argparse.Namespace) -> int:
    """A row per partition; exit code 1 unless each is where the plan has it."""
    from fencepost.client.errors import UnknownTopic

    plan = _plan(arguments)
    if not plan:
        return _nothing_to_move(arguments)
    with open_admin(arguments) as admin:
        moving = admin.list_reassignments(plan)
        current: dict[TopicPartition, Any] = {}
        for topic in sorted({where.topic for where in plan}):
            try:
                found = admin.describe_topic(topic).partitions
            except UnknownTopic:
                continue
            current.update((TopicPartition(topic, number), info) for number, info in found.items())
        code = _print_states(arguments, plan, moving, current)
        if not arguments.preserve_throttles:
            _remove_throttles(admin, {where.topic for where in current})
    return code


def _print_states(
    arguments: argparse.Namespace,
    plan: Mapping[TopicPartition, list[int]],
    moving: Mapping[TopicPartition, Reassignment],
    current: Mapping[TopicPartition, Any],
) -> int:
    """A row per partition; the exit code."""
    from fencepost.views.partitions import PlanState

    views = []
    for where, replicas in sorted(plan.items()):
        info = current.get(where)
        state = _state(replicas, info, moving.get(where))
        now = (list(info.replicas), list(info.isr)) if info is not None else ([], [])
        views.append(PlanState(*where, replicas, *now, state))
    print_views(arguments, PlanState, views)
    return 0 if all(view.state == DONE for view in views) else 1


def _state(target: Sequence[int], info: Any, moving: Reassignment | None) -> str:
    if info is None:
        return GONE
    if moving is not None:
        return MOVING
    return DONE if list(info.replicas) == list(target) else OTHERWISE


@command
def cancel(arguments: argparse.Namespace) -> int:
    """Call moves off: those named, those of a plan, or all."""

    if (bool(arguments.partitions), arguments.plan is not None, arguments.all).count(True) != 1:
        raise UsageError("name partitions, or a --plan, or say --all")
    planned = read_partition_file(arguments.plan, "replicas") if arguments.plan is not None else {}
    with open_admin(arguments) as admin:
        moving = admin.list_reassignments()
        if arguments.all:
            chosen = list(moving)
        elif arguments.plan is not None:
            chosen = list(planned)
        else:
            chosen = existing_partitions(admin, arguments.partitions)
            named = {partition_of(w, "PARTITION") for w in arguments.partitions if ":" in w}
            chosen = [where for where in chosen if where in moving or where in named]
        outcomes = admin.alter_reassignments(dict.fromkeys(chosen)) if chosen else {}
        code = print_outcomes(arguments, outcomes, "cancelled")
        done = {where.topic for where, outcome in outcomes.items() if outcome.is_done}
        if done and not arguments.preserve_throttles:
            _remove_throttles(admin, done)
    return code


@command
def list_moves(arguments: argparse.Namespace) -> int:
    """All moves under way."""
    from fencepost.views.partitions import MovingPartition

    with open_admin(arguments) as admin:
        moving = admin.list_reassignments()
    views = [
        MovingPartition(*where, list(one.replicas), list(one.adding), list(one.removing))
        for where, one in sorted(moving.items())
    ]
    print_views(arguments, MovingPartition, views)
    return 0
