"""The commands of scenarios. Each says in its docstring how it is written and what it does."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import fields
from typing import Any

from fencepost.log.meta import read_clean_shutdown
from fencepost.machines.quorum import AppendOutcome
from fencepost.machines.quorum.inputs import Resign
from fencepost.sim.boot import DATA
from fencepost.sim.by_hand import MESSAGES, RUN_MOST_MS, Flight
from fencepost.sim.clock import PAR
from fencepost.sim.damage import DIRECTORY, flip_batch, flip_snapshot
from fencepost.sim.disk import Crash
from fencepost.sim.disk_snapshots import DiskSnapshot
from fencepost.sim.options import Options
from fencepost.sim.oracle import Violation
from fencepost.sim.script import Script, ScriptError
from fencepost.sim.script_table import answer_to, command, node_of, options_of
from fencepost.wire.errors import ErrorCode

_WAIT_MOST_MS = 3_600_000
_RATE_LEAST, _RATE_MOST = 0.001, 1_000
_JUMP_MOST_MS = 10**13
_HELD_US = 1 << 60
"""A time that never comes: when what is held arrives by itself."""


# -- the world -------------------------------------------------------------------------------------


@command
def voters(script: Script, words: list[str]) -> None:
    """`voters N [observers=M] [dynamic] [controller] [fetch_max_bytes=B] [snapshot_bytes=B]
    [segment_bytes=B] [retention_bytes=B] [fetch_snapshot_max_bytes=B] [brokers=B]
    [committers=N] [members=N] [transactors=N] [transaction_version=V]`: the world; first.
    `controller` has controllers decide and write, too; `brokers` are 101 and so on, `committers`
    commit offsets of groups for them, `members` are those of one group, and `transactors` produce
    in transactions; with them every other consumer reads committed data."""
    given = options_of(words[1:])
    has_controller = given.pop("controller", "0") != "0"
    is_dynamic = given.pop("dynamic", "0") != "0"
    sizes: dict[str, Any] = {key: int(value) for key, value in given.items()}
    unknown = sizes.keys() - {field.name for field in fields(Options)}
    if unknown:
        raise ScriptError(f"a world has no {', '.join(sorted(unknown))}")
    script.make_world(
        Options(
            voters=int(words[0]),
            has_controller=has_controller,
            is_dynamic=is_dynamic,
            **sizes,
        )
    )


@command
def start(script: Script, words: list[str]) -> None:
    """`start N...`: boot nodes, for the first time or again, on what their disks hold."""
    for word in words:
        script.hand.start(node_of(script, word).id)


@command
def settle(script: Script, words: list[str]) -> None:
    """`settle [except A->B...]`: flush and deliver all, until only time could pass; what is on the
    ways that are named stays there."""
    held = set(words[1:])
    script.hand.settle(lambda event: bool(held) and _way(event) in held)


def _way(event: Any) -> str:
    if event.kind not in MESSAGES:
        return ""
    call = event.about
    a, b = call.source.id, call.target.id
    return f"{a}->{b}" if event.kind == "request" else f"{b}->{a}"


@command
def wait(script: Script, words: list[str]) -> None:
    """`wait MS`: let time pass, and everything happen that it brings."""
    wait_ms = int(words[0])
    if not 0 <= wait_ms <= _WAIT_MOST_MS:
        raise ScriptError(f"a wait is 0 to {_WAIT_MOST_MS} ms")
    script.hand.wait(wait_ms)


@command
def run(script: Script, words: list[str]) -> list[str]:
    """`run until leader [N] | converged`: let time pass until there is an active leader, or until
    all nodes that are up know all that it has for committed; a minute at most."""
    world = script.world
    what = " ".join(words[1:])
    began_us = world.now_us

    def is_there() -> bool:
        leader = world.leader()
        if leader is None or not leader.machine.is_active_leader:
            return False
        if words[1] == "leader":
            return len(words) < 3 or leader.id == int(words[2])
        offset = leader.machine.end_offset
        return all(node.machine.high_watermark == offset for node in world.alive())

    if words[:1] != ["until"] or words[1] not in ("leader", "converged"):
        raise ScriptError("`run until leader [N]` or `run until converged`")
    limit_us = began_us + RUN_MOST_MS * 1_000
    if not world.run_while(lambda: not is_there(), limit_us):
        raise Violation("liveness", f"no {what} within {RUN_MOST_MS} ms: {world.describe()}")
    return [f"after {(world.now_us - began_us) // 1_000} ms"]


# -- one thing after another -----------------------------------------------------------------------


@command
def deliver(script: Script, words: list[str]) -> None:
    """`deliver A->B [Kind]`: the first such message arrives (Vote, PreVote, Fetch, FetchAnswer,
    FetchFailure, ...)."""
    event = script.flight(words)
    if event.at_us >= _HELD_US:
        script.world.queue.move(event, script.world.now_us)
    script.hand.happen(event)


@command
def _pass(script: Script, words: list[str]) -> None:
    """`pass A->B`: whatever is on that way now arrives, if anything is."""
    for event in script.flights():
        if _way(event) == words[0]:
            script.hand.happen(event)


@command
def drop(script: Script, words: list[str]) -> None:
    """`drop A->B [Kind]`: it is lost, and its sender hears so."""
    script.hand.drop(Flight(script.flight(words)))


@command
def repeat(script: Script, words: list[str]) -> None:
    """`repeat A->B [Kind]`: it arrives, and is still on its way, as a duplicate is."""
    event = script.flight(words)
    held_us = event.at_us
    if held_us >= _HELD_US:
        event.at_us = script.world.now_us
    script.world.happen(event)
    event.at_us = held_us


@command
def flush(script: Script, words: list[str]) -> None:
    """`flush N...`: what these nodes have appended is durable."""
    for word in words:
        script.hand.flush(node_of(script, word).id)


@command
def fire(script: Script, words: list[str]) -> None:
    """`fire N TIMER`: let time pass until that timer of N's machine is due (election, fetch, retry,
    fetch-wait, check-quorum, begin-quorum, ...), and have only it fire."""
    script.hand.fire(node_of(script, words[0]).id, words[1])


# -- trouble ---------------------------------------------------------------------------------------


@command
def cut(script: Script, words: list[str]) -> None:
    """`cut A B` or `cut A->B`: nothing passes any more, both ways or one way."""
    for source, target in _links(script, words):
        script.world.network.cut(source, target)


@command
def reconnect(script: Script, words: list[str]) -> None:
    """`reconnect`, `reconnect A B` or `reconnect A->B`: everything passes again."""
    links = _links(script, words) if words else list(script.world.network.links)
    for source, target in links:
        script.world.network.reconnect(source, target)


@command
def clog(script: Script, words: list[str]) -> None:
    """`clog A->B MS`: what is sent this way from now on arrives in MS milliseconds, not before."""
    ((source, target),) = _links(script, words[:1])
    world = script.world
    world.network.links[source, target].clogged_until_us = world.now_us + int(words[1]) * 1_000


@command
def hold(script: Script, words: list[str]) -> None:
    """`hold A->B`: what is sent this way from now on waits until it is delivered, or let go."""
    ((source, target),) = _links(script, words[:1])
    script.world.network.links[source, target].clogged_until_us = _HELD_US


@command
def let_go(script: Script, words: list[str]) -> None:
    """`let-go A->B`: what was held on this way arrives, and nothing is held any more."""
    ((source, target),) = _links(script, words[:1])
    link = script.world.network.links[source, target]
    link.clogged_until_us = link.last_us = 0
    for event in script.flights():
        if _way(event) == words[0]:
            script.world.queue.move(event, script.world.now_us)


def _links(script: Script, words: list[str]) -> list[tuple[int, int]]:
    if "->" in words[0]:
        source, target = (_end_of(script, word) for word in words[0].split("->"))
        return [(source, target)]
    a, b = (_end_of(script, word) for word in words[:2])
    return [(a, b), (b, a)]


def _end_of(script: Script, word: str) -> int:
    """The id of a node, or of a client of brokers. ScriptError."""
    is_client = word.isdigit() and int(word) in script.world.options.client_ids
    return int(word) if is_client else node_of(script, word).id


@command
def kill(script: Script, words: list[str]) -> None:
    """`kill N...`: the process is gone, the page cache is not."""
    for word in words:
        node_of(script, word).kill()


@command
def power_loss(script: Script, words: list[str]) -> None:
    """`power-loss N... [keep=K] [torn=B]`: the machine is gone. Of what it had not synced, the
    first K changes of each file survive (none), the last of them only with its first B bytes."""
    given = options_of([word for word in words if "=" in word])
    torn = int(given["torn"]) if "torn" in given else None
    for word in words:
        if "=" not in word:
            node_of(script, word).lose_power_keeping(int(given.get("keep", "0")), torn)


@command
def die_writing(script: Script, words: list[str]) -> None:
    """`die-writing N FILE`: N loses power as soon as it renames a new FILE into place."""
    _lose_power_before(script, words[0], "rename", words[1])


@command
def die_at(script: Script, words: list[str]) -> None:
    """`die-at N OPERATION FILE`: N loses power just before the next such operation (see `refuse`)
    on a file with that in its path."""
    _lose_power_before(script, words[0], words[1], words[2])


def _lose_power_before(script: Script, word: str, operation: str, name: str) -> None:
    """Before the next such operation on a file with `name` in its path."""

    def crash(path: str) -> OSError:
        raise Crash(f"before {operation} of {path}")

    node_of(script, word).disk.at_next(operation, name, crash)


@command
def refuse(script: Script, words: list[str]) -> None:
    """`refuse N OPERATION [FILE]`: the next such operation (sync, write, read, create, rename) on a
    file with that in its path fails, and N may give up."""
    script.hand.refuse(node_of(script, words[0]).id, words[1], words[2] if len(words) > 2 else "")


@command
def fill(script: Script, words: list[str]) -> None:
    """`fill N FILE`: N's disk has no space left for files with that in their path, and N may give
    up."""
    node, name = node_of(script, words[0]), words[1]
    node.is_excused = True

    def fault(operation: str, path: str, count: int) -> OSError | None:
        if operation in ("write", "create") and name in path:
            return OSError(errno.ENOSPC, "no space left on the simulated disk", path)
        return None

    node.disk.fault = fault


@command
def free(script: Script, words: list[str]) -> None:
    """`free N`: there is space on N's disk again."""
    node_of(script, words[0]).disk.fault = None


@command
def closed(script: Script, words: list[str]) -> list[str]:
    """`closed N`: whether N's log directory says that it was closed in order."""
    is_clean = read_clean_shutdown(node_of(script, words[0]).disk, DATA) is not None
    return [f"closed in order: {'yes' if is_clean else 'no'}"]


@command
def checkpoint(script: Script, words: list[str]) -> None:
    """`checkpoint N`: N writes down how far its log is durable; recovery begins there."""
    node_of(script, words[0]).log_dir.checkpoint_recovery_points()


@command
def corrupt(script: Script, words: list[str]) -> None:
    """`corrupt N OFFSET [BIT]`: a bit of the batch with that offset changes on N's disk, the last
    one or the one so many before it (63 at most); N may give up."""
    node = node_of(script, words[0])
    flip_batch(node, int(words[1]), *map(int, words[2:3]))


@command
def corrupt_snapshot(script: Script, words: list[str]) -> None:
    """`corrupt-snapshot N`: a bit changes in the middle of N's newest snapshot."""
    node = node_of(script, words[0])
    flip_snapshot(node)


@command
def lose(script: Script, words: list[str]) -> None:
    """`lose N FILE [keep=B]`: N, which is down, finds no file with that in its name, or only its
    first B bytes; it may give up. FILE is of the metadata log, or with TOPIC-N/ in front of that
    partition's."""
    node = node_of(script, words[0])
    partition, slash, file = words[1].rpartition("/")
    directory = f"{DATA}/{partition}" if slash else DIRECTORY
    if not slash:
        script.world.observer.oracle.disks[node.id].is_damaged = True
    keep = options_of(words[2:]).get("keep")
    for name in node.disk.list(directory):
        if file not in name:
            continue
        if keep is None:
            node.disk.unlink(f"{directory}/{name}")
        else:
            torn = node.disk.open(f"{directory}/{name}")
            torn.truncate(min(int(keep), torn.size()))
            torn.sync()
            torn.close()
    node.disk.sync_dir(directory)


@command
def wipe(script: Script, words: list[str]) -> None:
    """`wipe N`: N, which is down, gets an empty disk, with another directory id."""
    node_of(script, words[0]).new_disk()


@command
def remember(script: Script, words: list[str]) -> None:
    """`remember N`: a copy of what N's disk holds, without what no sync has covered."""
    script.disk_snapshots[words[0]] = DiskSnapshot(node_of(script, words[0]))


@command
def put_back(script: Script, words: list[str]) -> None:
    """`put-back N [FILE]`: N, which is down, finds its disk, or the file with that in its name, as
    it was remembered; with a file it may give up."""
    node, snapshot = node_of(script, words[0]), script.disk_snapshots[words[0]]
    if len(words) == 1:
        snapshot.put_back()
        return
    script.world.observer.oracle.disks[node.id].is_damaged = True
    path = next((path for path in snapshot.files() if words[1] in path), None)
    if path is None:
        raise ScriptError(f"node {node.id} had no {words[1]}")
    node.disk.restore_file(snapshot.stored, path)


@command
def pause(script: Script, words: list[str]) -> None:
    """`pause N`: its process stops; what happens to it waits."""
    node_of(script, words[0]).pause()


@command
def resume(script: Script, words: list[str]) -> None:
    """`resume N`: it goes on."""
    node_of(script, words[0]).resume()


@command
def clock(script: Script, words: list[str]) -> None:
    """`clock N +MS`, `clock N -MS`, `clock N xRATE`: N's wall clock is set, or both its clocks run
    at another pace."""
    node, change = node_of(script, words[0]), words[1]
    if change.startswith("x"):
        rate = float(change[1:])
        if not _RATE_LEAST <= rate <= _RATE_MOST:
            raise ScriptError(f"a clock runs {_RATE_LEAST} to {_RATE_MOST} times as fast")
        node.change_clocks(rate=int(rate * PAR))
        return
    jump_ms = int(change)
    if abs(jump_ms) > _JUMP_MOST_MS:
        raise ScriptError(f"a clock is set by {_JUMP_MOST_MS} ms at most")
    node.change_clocks(jump_ms=jump_ms)


# -- asking ----------------------------------------------------------------------------------------


@command
def append(script: Script, words: list[str]) -> None:
    """`append N NAME...`: ask N's machine to append a record for each name, by itself; see
    `outcomes`."""
    node = node_of(script, words[0])
    for name in words[1:]:
        say = script.expect(name)

        def appended(outcome: AppendOutcome, say: Callable[[str], None] = say) -> None:
            at = f" at {outcome.base_offset}" if outcome.base_offset >= 0 else ""
            say(f"{ErrorCode(outcome.error).name}{at}")

        script.hand.append(node.id, name, appended)


@command
def write(script: Script, words: list[str]) -> None:
    """`write N topic=NAME` (or config=NAME, delete=NAME, broker=ID, unfence=ID,
    unregister=ID): ask N's controller; see `outcomes`. Topics want a broker that is registered and
    unfenced."""
    node = node_of(script, words[0])
    for kind, name in options_of(words[1:]).items():
        script.world.workload.ask(node, kind, name, answer_to(script, f"{kind} {name}"))


@command
def resign(script: Script, words: list[str]) -> None:
    """`resign N`: N is about to stop and hands over, if it leads."""
    script.hand.feed(node_of(script, words[0]).id, Resign())


@command
def snapshot(script: Script, words: list[str]) -> None:
    """`snapshot N`: N takes a snapshot of what it has for committed."""
    node = node_of(script, words[0])
    script.world.guard(node.take_snapshot, node)


# -- looking ---------------------------------------------------------------------------------------


@command
def show(script: Script, words: list[str]) -> list[str]:
    """`show [N...]`: nodes, whether or not they have changed."""
    ids = [node_of(script, word).id for word in words] or list(script.world.nodes)
    return [script.show(id_) for id_ in ids]


@command
def messages(script: Script, words: list[str]) -> list[str]:
    """`messages`: everything that is on its way."""
    from fencepost.sim.render import describe

    return [describe(event.about, event.kind) for event in script.flights()]


@command
def outcomes(script: Script, words: list[str]) -> list[str]:
    """`outcomes`: what became of appends, writes and other requests."""
    return [f"{name}: {said}" for name, said in script.outcomes.items()]


@command
def image(script: Script, words: list[str]) -> list[str]:
    """`image N`: the cluster as N's parts see it: offset, topics, configs, brokers."""
    seen = node_of(script, words[0]).metadata.image
    topics = " ".join(sorted(seen.topics_by_name)) or "none"
    configs = " ".join(sorted(seen.broker_configs())) or "none"
    brokers = (
        " ".join(
            f"{id_}{' fenced' if seen.brokers[id_].fenced else ''}" for id_ in sorted(seen.brokers)
        )
        or "none"
    )
    return [f"image to {seen.offset}: topics {topics}; configs {configs}; brokers {brokers}"]


@command
def files(script: Script, words: list[str]) -> list[str]:
    """`files N`: names and sizes of what is in N's metadata log directory."""
    node = node_of(script, words[0])
    directory = "/data/__cluster_metadata-0"
    return [f"{name} {node.disk.size(f'{directory}/{name}')}" for name in node.disk.list(directory)]


@command
def time(script: Script, words: list[str]) -> list[str]:
    """`time`: how long the world has been there."""
    return [f"{script.world.now_ms} ms"]


@command
def check(script: Script, words: list[str]) -> list[str]:
    """`check`: the invariants that take a look at all logs."""
    script.world.observer.at_end()
    return ["ok"]
