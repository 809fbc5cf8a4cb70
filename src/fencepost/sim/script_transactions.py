"""The commands of scenarios about transactions. Transactors are x1, x2, ... in the order of their
ids; the odd ones know KIP-890, and speak version 2 where the cluster does."""

from __future__ import annotations

from collections.abc import Callable

from fencepost.client.errors import ClientError
from fencepost.sim.clients.transactor import Transactor
from fencepost.sim.script import Script, ScriptError
from fencepost.sim.script_brokers import (
    broker_of,
    committer_of,
    hosted_of,
    partition_of,
)
from fencepost.sim.script_table import act_as, client_of, command, keys_of, split_options


@command
def init(script: Script, words: list[str]) -> None:
    """`init X`: transactor X asks for its producer id; X has crashed, if it had one; see
    `outcomes`."""
    transactor = _transactor_of(script, words[0])
    transactor.restart()
    _do(script, words[0], "init", transactor.initialize)


@command
def takes_over(script: Script, words: list[str]) -> None:
    """`takes-over X Y`: transactor X has the transactional id of Y from now on."""
    first, second = (_transactor_of(script, word) for word in words[:2])
    first.transactional_id = second.transactional_id


@command
def begin(script: Script, words: list[str]) -> None:
    """`begin X`: transactor X begins a transaction."""
    transactor = _transactor_of(script, words[0])
    script.world.guard(transactor.begin_transaction, None)


@command
def write_in(script: Script, words: list[str]) -> None:
    """`write-in X TOPIC-N [COUNT] [keys=K,...]`: transactor X sends a batch in its transaction, and
    again whenever it may; see `outcomes`."""
    words, given = split_options(words)
    transactor, key = _transactor_of(script, words[0]), partition_of(script, words[1])
    count = int((words[2:] or ["1"])[0])
    keys = keys_of(given["keys"]) if given else []
    _do(script, words[0], words[1], lambda: transactor.produce(key, count, keys))


@command
def commit_in(script: Script, words: list[str]) -> None:
    """`commit-in X G TOPIC-N`: transactor X commits an offset of committer G's group for the
    partition in its transaction; see `outcomes`."""
    transactor, key = _transactor_of(script, words[0]), partition_of(script, words[2])
    group_id = committer_of(script, words[1]).group_id
    what = f"offset of {words[1]}"
    _do(script, words[0], what, lambda: transactor.commit_offset(key, group_id))


@command
def end(script: Script, words: list[str]) -> None:
    """`end X commit | abort`: transactor X ends its transaction; see `outcomes`."""
    if words[1] not in ("commit", "abort"):
        raise ScriptError("`end X commit` or `end X abort`")
    transactor = _transactor_of(script, words[0])

    def act() -> None:
        try:
            transactor.end(commit=words[1] == "commit")
        except ClientError as error:
            transactor.on_outcome(type(error).__name__)

    _do(script, words[0], words[1], act)


@command
def ends_for(script: Script, words: list[str]) -> None:
    """`ends-for X Y`: Y has left its transaction open and is gone; X, another process, is told what
    it takes to end it (`open_transactions`), and may."""
    first, second = (_transactor_of(script, word) for word in words[:2])
    script.world.guard(lambda: first.take_open(second), None)


@command
def give_up(script: Script, words: list[str]) -> None:
    """`give-up X`: transactor X waits no more for the answer to its batch, and can only abort."""
    transactor = _transactor_of(script, words[0])
    script.world.guard(transactor.give_up, None)


@command
def age(script: Script, words: list[str]) -> None:
    """`age X EPOCH B`: broker B, which coordinates X's transactional id, writes that it has that
    epoch, as after so many transactions; X must ask for its producer id again."""
    id_, broker = _transactor_of(script, words[0]).transactional_id, broker_of(script, words[2])
    script.world.guard(lambda: broker.transactions.age(id_, int(words[1])), broker)


@command
def expire(script: Script, words: list[str]) -> None:
    """`expire B`: broker B forgets the producers that have been silent for a day by its clock, as
    it does every ten minutes."""
    broker = broker_of(script, words[0])
    for hosted in broker.replicas.all():
        hosted.log.producers.remove_expired(broker.clocks.wall_ms())


@command
def transactions(script: Script, words: list[str]) -> list[str]:
    """`transactions B`: the transactional ids that broker B coordinates: state, epoch, and the
    partitions that take part."""
    return [
        f"{one.transactional_id}   {one.state.name.lower()}   e{one.identity.epoch}"
        + "".join(f"   {topic}-{index}" for topic, index in sorted(one.partitions))
        for coordinator in broker_of(script, words[0]).transactions.coordinators.coordinators()
        for one in coordinator.machine.transactions.values()
    ]


@command
def stable(script: Script, words: list[str]) -> list[str]:
    """`stable B TOPIC-N`: the last stable offset of the partition at broker B, and its high
    watermark."""
    machine = hosted_of(script, words[0], words[1]).machine
    return [f"{machine.last_stable_offset} of {machine.high_watermark}"]


def _do(script: Script, name: str, what: str, act: Callable[[], None]) -> None:
    act_as(script, _transactor_of(script, name), f"{name} {what}", act)


def _transactor_of(script: Script, word: str) -> Transactor:
    clients = script.world.clients.transactors
    return client_of(clients, word, "is no transactor; x1, x2, ... are if transactors=N")
