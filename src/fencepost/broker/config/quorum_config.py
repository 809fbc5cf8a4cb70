"""What the configuration says of the quorum: this node's part in it, who votes, whom to ask.

There are three ways to configure a quorum, and each wants other keys:

* A lone node: both roles, no voters but itself. It needs no controller listener, and makes its own
  directories; this is what `fencepost serve` without options is.
* Static voters (kraft.version 0): `controller.quorum.voters` lists all of them, the same on every
  node; who changes the list restarts everybody.
* Dynamic voters (KIP-853): `controller.quorum.bootstrap.servers` says whom to ask, and who votes is
  in the metadata log, where `fencepost format` has put the first of them.

The checks are those that Kafka makes for KRaft, each with a ConfigError of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from msgspec import Struct

from fencepost.addresses import AddressError, parse_address
from fencepost.broker.config.endpoints import Endpoint
from fencepost.log.configdef import ConfigError
from fencepost.machines.quorum.voters import Endpoint as VoterEndpoint, ReplicaKey, Voter, VoterSet

BROKER_ROLE: Final = "broker"
CONTROLLER_ROLE: Final = "controller"
ROLES: Final = (BROKER_ROLE, CONTROLLER_ROLE)

VOTERS_KEY: Final = "controller.quorum.voters"
SERVERS_KEY: Final = "controller.quorum.bootstrap.servers"
NAMES_KEY: Final = "controller.listener.names"


class Server(NamedTuple):
    """Where a node is reached."""

    host: str
    port: int

    def __str__(self) -> str:
        return str(Endpoint("", self.host, self.port))


class QuorumPart(Struct, frozen=True):
    """One node's part in the quorum, as configured."""

    node_id: int
    roles: frozenset[str]
    listener_names: tuple[str, ...]
    """Names of the controllers' listeners, in upper case; the first is the one that is used."""
    voters: VoterSet
    """Static voters with their addresses; empty where none are configured."""
    servers: tuple[Server, ...]
    """Whom to ask for the leader, in the order of the configuration."""

    @property
    def is_broker(self) -> bool:
        """Whether this node holds topics."""
        return BROKER_ROLE in self.roles

    @property
    def is_controller(self) -> bool:
        """Whether this node may vote and decide."""
        return CONTROLLER_ROLE in self.roles

    @property
    def is_lone(self) -> bool:
        """Whether this node is configured to be the whole cluster's only controller.

        `controller.quorum.bootstrap.servers` is for clusters whose voters are in the log, so who
        sets it means to have been formatted, even if it names nobody but this node.
        """
        return (
            self.roles == frozenset(ROLES)
            and not self.servers
            and self.voters.ids in ((), (self.node_id,))
        )

    @property
    def static_voters(self) -> VoterSet:
        """The voters as long as the log says nothing of them.

        Without a controller listener no node can reach a lone voter, whatever address it names.
        """
        is_reached = self.voters.ids and self.listener_names
        return self.voters if is_reached or not self.is_lone else VoterSet.of_ids((self.node_id,))


def quorum_part(
    node_id: int,
    roles: Sequence[str],
    listener_names: Sequence[str],
    voters: Sequence[str],
    servers: Sequence[str],
) -> QuorumPart:
    """The part that the keys describe, checked by itself. ConfigError."""
    names = tuple(name.upper() for name in listener_names)
    if len(set(names)) != len(names):
        raise ConfigError(NAMES_KEY, ",".join(listener_names), "each name once")
    voter_set = _voters(voters, names[0] if names else "CONTROLLER")
    asked = tuple(_server(SERVERS_KEY, text) for text in servers)
    part = QuorumPart(node_id, frozenset(roles), names, voter_set, asked)
    if not part.is_lone:
        _check_quorum(part, voters)
    return part


def check_listeners(part: QuorumPart, listeners: Sequence[Endpoint]) -> None:
    """Whether the node opens the listeners that its roles need, and no others. ConfigError."""
    text = ",".join(f"{one.name}://{one}" for one in listeners)
    opened = {one.name for one in listeners}
    theirs = opened & set(part.listener_names)
    if not part.is_controller:
        if theirs:
            allowed = f"without {_list(theirs)}: a broker does not open listeners of {NAMES_KEY}"
            raise ConfigError("listeners", text, allowed)
        return
    missing = set(part.listener_names) - opened
    if missing:
        raise ConfigError(NAMES_KEY, _list(missing), "names out of `listeners`")
    if not part.is_broker and opened - theirs:
        allowed = f"only listeners that {NAMES_KEY} names, as process.roles is controller"
        raise ConfigError("listeners", text, allowed)


def check_advertised(part: QuorumPart, told: Sequence[Endpoint]) -> None:
    """Whether `advertised.listeners` fits the roles. ConfigError."""
    for one in told:
        is_controllers = one.name in part.listener_names
        text = f"{one.name}://{one}"
        if is_controllers and not part.is_controller:
            allowed = f"none of {NAMES_KEY}: this node is no controller"
            raise ConfigError("advertised.listeners", text, allowed)
        if not is_controllers and not part.is_broker:
            allowed = f"only listeners that {NAMES_KEY} names, as process.roles is controller"
            raise ConfigError("advertised.listeners", text, allowed)


def _check_quorum(part: QuorumPart, voters: Sequence[str]) -> None:
    if not part.voters.ids and not part.servers:
        allowed = f"the voters, or else addresses in {SERVERS_KEY}: this node alone is no cluster"
        raise ConfigError(VOTERS_KEY, "", allowed)
    if not part.listener_names:
        raise ConfigError(NAMES_KEY, "", "the name of the controllers' listener")
    is_voter = part.node_id in part.voters.ids
    if part.voters.ids and part.is_controller and not is_voter:
        allowed = f"a list with node.id={part.node_id} in it, as this node is a controller"
        raise ConfigError(VOTERS_KEY, ",".join(voters), allowed)
    if is_voter and not part.is_controller:
        allowed = f"a list without node.id={part.node_id}, as this node is no controller"
        raise ConfigError(VOTERS_KEY, ",".join(voters), allowed)


def _voters(texts: Sequence[str], listener_name: str) -> VoterSet:
    found: dict[int, Voter] = {}
    for text in texts:
        voter_id, at, address = text.partition("@")
        if not at or not voter_id.isdecimal() or int(voter_id) >= 1 << 31:
            raise ConfigError(VOTERS_KEY, text, "ID@HOST:PORT")
        host, port = _server(VOTERS_KEY, address, whole=text, allowed="ID@HOST:PORT")
        if int(voter_id) in found:
            raise ConfigError(VOTERS_KEY, ",".join(texts), "each id once")
        endpoint = VoterEndpoint(listener_name, host, port)
        found[int(voter_id)] = Voter(ReplicaKey(int(voter_id)), (endpoint,))
    return VoterSet(tuple(found.values()))


def _server(key: str, text: str, *, whole: str | None = None, allowed: str = "HOST:PORT") -> Server:
    try:
        return Server(*parse_address(text, form=allowed))
    except AddressError as error:
        raise ConfigError(key, text if whole is None else whole, str(error)) from None


def _list(names: Collection[str]) -> str:
    return ",".join(sorted(names))
