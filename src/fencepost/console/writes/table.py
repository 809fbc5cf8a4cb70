"""Which changes there are, and the fields that they are made of."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

from fencepost.console.asked import Asked
from fencepost.console.page import Field
from fencepost.console.session import Options, Session
from fencepost.console.writes.faults import ACTIONS, KINDS, LINKS, fault, lift_fault, link, node
from fencepost.console.writes.offsets import reset_offsets
from fencepost.console.writes.plan import Plan
from fencepost.console.writes.redrive import LETTERS, LETTERS_MAX, redrive
from fencepost.console.writes.topics import (
    alter_configs,
    create_topic,
    delete_records,
    delete_topic,
    produce,
)


class WriteKind(NamedTuple):
    """A kind of change: `fields` have the values that a new form begins with."""

    name: str
    title: str
    what: str
    plan: Callable[[Session, Asked], Awaitable[Plan]]
    fields: Sequence[Field]

    def fields_of(self, asked: Asked) -> list[Field]:
        """The fields with the values that were asked for."""
        return [
            Field(one.name, one.label, asked.text(one.name, one.value), one.choices, one.lines)
            for one in self.fields
        ]


_TOPIC: Final = Field("topic", "topic", "")
WRITES: Final = (
    WriteKind(
        "reset-offsets",
        "Reset a group's offsets",
        "of a group without members, in a topic or one partition",
        reset_offsets,
        (
            Field("group", "group", ""),
            _TOPIC,
            Field("partition", "partition (-1: all)", "-1"),
            Field("to", "to (earliest, latest, an offset, a time, …)", ""),
        ),
    ),
    WriteKind(
        "produce",
        "Produce a record",
        "one record of text",
        produce,
        (
            _TOPIC,
            Field("partition", "partition (-1: by the key)", "-1"),
            Field("key", "key (empty: none)", ""),
            Field("value", "value", "", lines=True),
            Field("null", "value is null", "no", ("no", "yes")),
        ),
    ),
    WriteKind(
        "redrive",
        "Redrive dead letters",
        "produces the records of a topic of dead letters again, where they came from",
        redrive,
        (
            _TOPIC,
            Field("from", "from (as of records)", "earliest"),
            Field("to", "to", "latest"),
            Field("partitions", "partitions", "all"),
            Field("filter", "filter", ""),
            Field("limit", f"letters ({LETTERS_MAX} at most)", str(LETTERS)),
        ),
    ),
    WriteKind(
        "create-topic",
        "Create a topic",
        "with its partitions, replicas and configs",
        create_topic,
        (
            _TOPIC,
            Field("partitions", "partitions", "1"),
            Field("replicas", "replicas of each", "1"),
            Field("configs", "configs, lines of key=value", "", lines=True),
        ),
    ),
    WriteKind(
        "alter-configs",
        "Alter a topic's configs",
        "those that are named; the others stay",
        alter_configs,
        (
            _TOPIC,
            Field("set", "set, lines of key=value", "", lines=True),
            Field("delete", "delete, keys", ""),
        ),
    ),
    WriteKind(
        "delete-records",
        "Delete records",
        "of a partition, before an offset",
        delete_records,
        (
            _TOPIC,
            Field("partition", "partition", "0"),
            Field("before", "before offset", ""),
        ),
    ),
    WriteKind(
        "delete-topic",
        "Delete a topic",
        "with all that is in it",
        delete_topic,
        (_TOPIC,),
    ),
)

FAULT_WRITES: Final = (
    WriteKind(
        "fault",
        "Have requests fail or wait",
        "at the gates of a test cluster",
        fault,
        (
            Field("kind", "what", KINDS[0], KINDS),
            Field("api", "requests of API (empty: any)", ""),
            Field("error", "error of a failure", "NOT_LEADER_OR_FOLLOWER"),
            Field("delay_ms", "ms of a delay", "1000"),
            Field("count", "how many requests (0: until it is lifted)", "1"),
            Field("topic", "about topic (empty: any)", ""),
            Field("client_id", "of client id (empty: any)", ""),
            Field("node", "to node (-1: any)", "-1"),
            Field("when", "when", "before", ("before", "after")),
        ),
    ),
    WriteKind(
        "lift-fault",
        "Lift a fault",
        "of a test cluster; what it holds goes on",
        lift_fault,
        (Field("fault", "fault (its number, or all)", ""),),
    ),
    WriteKind(
        "link",
        "Cut, slow or heal a link",
        "between nodes, or clients and nodes, of a test cluster",
        link,
        (
            Field("action", "what", LINKS[0], LINKS),
            Field("from", "from (node's or client's id; empty: any)", ""),
            Field("to", "to (the same)", ""),
            Field("one_way", "one way", "no", ("no", "yes")),
            Field("delay_ms", "ms of a slow link", "0"),
            Field("bytes_per_s", "bytes/s of a slow link (0: any)", "0"),
        ),
    ),
    WriteKind(
        "node",
        "Stop or start a node",
        "of a test cluster",
        node,
        (Field("node", "node", ""), Field("action", "what", "kill", tuple(ACTIONS))),
    ),
)


def writes_of(options: Options) -> Sequence[WriteKind]:
    """The changes that a console of these options has."""
    return WRITES if options.faults is None else (*WRITES, *FAULT_WRITES)
