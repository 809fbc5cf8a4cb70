"""The commands of scenarios that cut links, end processes, and damage disks and clocks."""

from __future__ import annotations

import errno

from fencepost.log.meta import read_clean_shutdown
from fencepost.sim.boot import DATA
from fencepost.sim.clock import PAR
from fencepost.sim.damage import DIRECTORY, flip_batch, flip_snapshot
from fencepost.sim.disk import Crash
from fencepost.sim.disk_snapshots import DiskSnapshot
from fencepost.sim.script import Script, ScriptError
from fencepost.sim.script_table import HELD_US, command, node_of, options_of, way_of

_RATE_LEAST, _RATE_MOST = 0.001, 1_000
_JUMP_MOST_MS = 10**13


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
    script.world.network.links[source, target].clogged_until_us = HELD_US


@command
def let_go(script: Script, words: list[str]) -> None:
    """`let-go A->B`: what was held on this way arrives, and nothing is held any more."""
    ((source, target),) = _links(script, words[:1])
    link = script.world.network.links[source, target]
    link.clogged_until_us = link.last_us = 0
    for event in script.flights():
        if way_of(event) == words[0]:
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
