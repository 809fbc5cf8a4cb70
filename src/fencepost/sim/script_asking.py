"""The commands of scenarios that ask nodes for something, and show what there is."""

from __future__ import annotations

from collections.abc import Callable

from fencepost.machines.quorum import AppendOutcome
from fencepost.machines.quorum.inputs import Resign
from fencepost.sim.script import Script
from fencepost.sim.script_table import answer_to, command, node_of, options_of
from fencepost.wire.errors import ErrorCode


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
