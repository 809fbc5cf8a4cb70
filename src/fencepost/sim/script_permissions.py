"""The commands of scenarios with guests, who may do what ACLs say: u1, u2, ...

A world has them with `guests=N`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fencepost.machines.image.acls import Acl, AclOperation, Pattern, PermissionType, ResourceType
from fencepost.sim.brokers.guests import user_of
from fencepost.sim.clients.guest import Guest
from fencepost.sim.script import Script, ScriptError
from fencepost.sim.script_brokers import broker_of, partition_of
from fencepost.sim.script_table import act_as, answer_to, client_of, command, node_of, options_of


@command
def add_acl(script: Script, words: list[str]) -> None:
    """`add-acl A allow|deny U OPERATION TOPIC`: ask controller A for an ACL that lets guest U do
    that to a topic, or does not; `*` is every topic, and `t*` those whose names begin so; see
    `outcomes`."""
    _about_acl(script, "add-acl", words, script.world.administrator.add_acl)


@command
def remove_acl(script: Script, words: list[str]) -> None:
    """`remove-acl A allow|deny U OPERATION TOPIC`: ask controller A to remove this ACL; see
    `outcomes`."""
    _about_acl(script, "remove-acl", words, script.world.administrator.remove_acl)


@command
def set_user(script: Script, words: list[str]) -> None:
    """`set-user A U`: ask controller A for a credential for guest U to log in with; see
    `outcomes`."""
    _about_user(script, "set-user", words, exists=True)


@command
def delete_user(script: Script, words: list[str]) -> None:
    """`delete-user A U`: ask controller A to delete the credential of guest U; see `outcomes`."""
    _about_user(script, "delete-user", words, exists=False)


@command
def read(script: Script, words: list[str]) -> None:
    """`read U TOPIC-N B [at=OFFSET] [wait=MS]`: guest U logs in at broker B and fetches from it;
    see `outcomes`."""
    guest, key = _guest_of(script, words[0]), partition_of(script, words[1])
    broker, given = broker_of(script, words[2]), options_of(words[3:])
    offset, wait_ms = int(given.get("at", 0)), int(given.get("wait", 0))
    name = f"read {words[0]} {words[1]} {words[2]}"
    act_as(script, guest, name, lambda: guest.fetch(key, broker.id, offset, wait_ms))


def _guest_of(script: Script, word: str) -> Guest:
    clients = script.world.clients.guests
    return client_of(clients, word, "is no guest; u1, u2, ... are if guests=N")


def _about_acl(script: Script, what: str, words: list[str], ask: Callable[..., Any]) -> None:
    node, (verdict, whom, operation, topic) = node_of(script, words[0]), words[1:]
    try:
        code, permission = AclOperation[operation.upper()], PermissionType[verdict.upper()]
    except KeyError as error:
        raise ScriptError(f"{error.args[0]} is nothing that an ACL can say") from None
    is_prefix = topic.endswith("*") and topic != "*"
    acl = Acl(
        ResourceType.TOPIC,
        topic.removesuffix("*") if is_prefix else topic,
        Pattern.PREFIXED if is_prefix else Pattern.LITERAL,
        code,
        f"User:{user_of(_guest_of(script, whom).id)}",
        "*",
        permission,
    )
    ask(node, acl, answer_to(script, " ".join([what, *words[1:]])))


def _about_user(script: Script, what: str, words: list[str], *, exists: bool) -> None:
    user = user_of(_guest_of(script, words[1]).id)
    then = answer_to(script, f"{what} {words[1]}")
    node = node_of(script, words[0])
    script.world.administrator.set_user(node, user, exists=exists, then=then)
