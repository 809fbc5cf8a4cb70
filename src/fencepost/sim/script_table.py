"""The table of commands that scenarios are made of, and what commands have in common.

A command is a function of the script and the words behind its name, and gives the lines that it
prints, if any. Its docstring says how it is written and what it does. To add one: a function with
`@command` in `script_commands.py` or a file of its own that `script.py` imports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from fencepost.sim.by_hand import MESSAGES
from fencepost.sim.clients.client import Client
from fencepost.sim.node import SimNode
from fencepost.sim.queue import Event
from fencepost.sim.script import Script, ScriptError
from fencepost.sim.workload import Asked

T = TypeVar("T")
HELD_US: Final = 1 << 60
"""A time that never comes: when what is held arrives by itself."""

Run = Callable[[Script, list[str]], Iterable[str] | None]

COMMANDS: dict[str, Run] = {}
"""By name, in the order in which they were written."""


def command(run: Run) -> Run:
    """Register a command under its function's name, with dashes."""
    name = run.__name__.strip("_").replace("_", "-")
    assert name not in COMMANDS, f"two commands are named {name}"
    COMMANDS[name] = run
    return run


def options_of(words: list[str]) -> dict[str, str]:
    """The words that are `key=value`; a bare word counts as `word=1`."""
    return {key: value or "1" for key, _, value in (word.partition("=") for word in words)}


def split_options(words: list[str]) -> tuple[list[str], dict[str, str]]:
    """The words that are no `key=value`, and those that are."""
    plain = [word for word in words if "=" not in word]
    return plain, options_of([word for word in words if "=" in word])


def keys_of(word: str) -> list[bytes]:
    """Keys of records: `a,b`, or with bytes `0x0001`. ScriptError."""
    try:
        return [
            bytes.fromhex(key[2:]) if key.startswith("0x") else key.encode()
            for key in word.split(",")
        ]
    except ValueError:
        raise ScriptError(f"{word} are no keys") from None


def way_of(event: Event) -> str:
    """The way of a message, `A->B`; none of what is no message."""
    if event.kind not in MESSAGES:
        return ""
    call = event.about
    a, b = call.source.id, call.target.id
    return f"{a}->{b}" if event.kind == "request" else f"{b}->{a}"


def node_of(script: Script, word: str) -> SimNode:
    """The node of that number. ScriptError."""
    try:
        return script.world.nodes[int(word)]
    except (ValueError, KeyError):
        raise ScriptError(f"{word} is no node") from None


def client_of(clients: Sequence[T], word: str, what: str) -> T:
    """The client that a word such as `p2` names by its place among those of its kind, from 1 on;
    ScriptError, which says that the word is no such thing."""
    number = word[1:]
    if not number.isdecimal() or not 1 <= int(number) <= len(clients):
        raise ScriptError(f"{word} {what}")
    return clients[int(number) - 1]


def act_as(script: Script, client: Client, name: str, act: Callable[[], None]) -> None:
    """Have a client do something, and `outcomes` say under `name` what becomes of it."""
    client.on_outcome = script.expect(name)
    script.world.guard(act, None)


def answer_to(script: Script, name: str) -> Callable[[Asked], None]:
    """What a request to a controller calls with its answer, for `outcomes` to say it."""
    say = script.expect(name)
    return lambda asked: say(asked.said())
