"""Who votes: replicas by id and directory, and the set of them that counts (KIP-853).

A voter is a node *with its disk*. Its key holds the id of the directory its metadata log is in, so
a node that comes back with an emptied disk is another replica: it does not count for what the old
disk had promised. Quorums whose voters are fixed by configuration (kraft.version 0) know no
directory ids; there the zero id stands for whatever the node has.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import force_setattr

from fencepost.wire.records import control
from fencepost.wire.types import Uuid

VOTERS_MAX = 255
"""The most voters that a set may have; a quorum of more would not get anything done."""

ENDPOINTS_MAX = 16
"""The most listeners that a voter may have."""

HOST_CHARACTERS_MAX = 255
"""The longest name that a host, or a listener, may have."""


class ReplicaKey(NamedTuple):
    """A node id and the id of its metadata directory; the zero id where none is known."""

    id: int
    directory_id: Uuid = Uuid.ZERO


class Endpoint(NamedTuple):
    """A listener's name, and the host and TCP port it is reached at."""

    name: str
    host: str
    port: int


class Voter(Struct, frozen=True):
    """A member of the voter set: its key, where it is reached, and the kraft.versions it can run.

    `endpoints` keep the order of the record; the range of versions includes both ends.
    """

    key: ReplicaKey
    endpoints: tuple[Endpoint, ...] = ()
    min_kraft_version: int = 0
    max_kraft_version: int = 0

    @property
    def id(self) -> int:
        """The node id."""
        return self.key.id

    def endpoint(self, listener: str) -> Endpoint | None:
        """Where the voter is reached on the listener of that name, if it has one."""
        return on_listener(listener, self.endpoints)

    def check_endpoints(self) -> None:
        """ValueError for more endpoints, longer names or other ports than a node can have."""
        if len(self.endpoints) > ENDPOINTS_MAX:
            raise ValueError(f"voter {self.id} has {len(self.endpoints)} endpoints")
        for name, host, port in self.endpoints:
            if max(len(name), len(host)) > HOST_CHARACTERS_MAX:
                raise ValueError(f"voter {self.id} has an endpoint with too long a name")
            if not 1 <= port <= 65_535:
                raise ValueError(f"voter {self.id} has an endpoint with port {port}")

    def says_the_same_as(self, other: Voter) -> bool:
        """Whether the two differ in nothing that matters.

        The order of endpoints does not, nor the case of listeners' names: Apache Kafka keeps
        neither when it writes what a voter has said of itself.
        """
        mine, theirs = (
            ({e._replace(name=e.name.upper()) for e in voter.endpoints}, voter.key)
            for voter in (self, other)
        )
        levels = (self.min_kraft_version, self.max_kraft_version)
        return mine == theirs and levels == (other.min_kraft_version, other.max_kraft_version)

    def can_run(self, kraft_version: int) -> bool:
        """Whether the voter supports this level of kraft.version."""
        return self.min_kraft_version <= kraft_version <= self.max_kraft_version

    def is_replica(self, key: ReplicaKey) -> bool:
        """Whether `key` is this voter's.

        A voter without a directory id is meant by its node id alone; one that has an id is not
        meant by a replica that names none, which cannot show that it kept its disk.
        """
        return self.key.id == key.id and self.key.directory_id in (Uuid.ZERO, key.directory_id)


class VoterSet(Struct, frozen=True, dict=True):
    """An immutable set of voters, ascending by id; no id is in it twice.

    Empty for a node that has been told nothing but where to ask. Raises ValueError for ids that
    are negative or not distinct.
    """

    voters: tuple[Voter, ...] = ()

    def __post_init__(self) -> None:
        ids = [voter.id for voter in self.voters]
        if any(id_ < 0 for id_ in ids):
            raise ValueError(f"ids of voters are not negative: {ids}")
        if len(set(ids)) != len(ids):
            raise ValueError(f"ids of voters are distinct: {ids}")
        if ids != sorted(ids):
            in_order = tuple(sorted(self.voters, key=lambda voter: voter.id))
            force_setattr(self, "voters", in_order)

    @classmethod
    def of_ids(cls, ids: Iterable[int]) -> VoterSet:
        """Voters fixed by configuration: ids alone. ValueError as of the class."""
        return cls(tuple(Voter(ReplicaKey(id_)) for id_ in ids))

    @classmethod
    def from_record(cls, record: control.VotersRecord) -> VoterSet:
        """The set that a VotersRecord describes.

        ValueError as of the class, and for what `Voter.check_endpoints` refuses: a set stands in
        the log and the snapshots of every node.
        """
        if len(record.voters) > VOTERS_MAX:
            raise ValueError(f"there are {len(record.voters)} voters, more than {VOTERS_MAX}")
        voters = tuple(_voter_of(voter) for voter in record.voters)
        for voter in voters:
            voter.check_endpoints()
        return cls(voters)

    def to_record(self) -> control.VotersRecord:
        """The set as the log keeps it."""
        return control.VotersRecord(version=0, voters=[_record_of(voter) for voter in self.voters])

    @cached_property
    def ids(self) -> tuple[int, ...]:
        """The node ids, ascending."""
        return tuple(voter.id for voter in self.voters)

    @cached_property
    def keys(self) -> tuple[ReplicaKey, ...]:
        """The keys, ascending by node id."""
        return tuple(voter.key for voter in self.voters)

    @cached_property
    def majority(self) -> int:
        """How many voters decide: more than half of them."""
        return len(self.voters) // 2 + 1

    def get(self, id_: int) -> Voter | None:
        """The voter with this node id."""
        return next((voter for voter in self.voters if voter.id == id_), None)

    def contains(self, key: ReplicaKey) -> bool:
        """Whether `key` is a voter's; see `Voter.is_replica` for what a zero id means."""
        voter = self.get(key.id)
        return voter is not None and voter.is_replica(key)

    def with_voter(self, voter: Voter) -> VoterSet:
        """The set with one more. ValueError if a voter has that node id already."""
        return VoterSet((*self.voters, voter))

    def without(self, key: ReplicaKey) -> VoterSet:
        """The set less one. ValueError if there is no voter of exactly this key."""
        if key not in self.keys:
            raise ValueError(f"{key} is no voter")
        return VoterSet(tuple(voter for voter in self.voters if voter.key != key))

    def updated(self, voter: Voter) -> VoterSet:
        """The set with this voter in place of the one with its id.

        A voter whose directory was not known may bring one along; ValueError for any other key.
        """
        old = self.get(voter.id)
        if old is None or not old.is_replica(voter.key):
            raise ValueError(f"{voter.key} is no voter")
        return VoterSet(tuple(voter if other is old else other for other in self.voters))

    def overlaps(self, other: VoterSet) -> bool:
        """Whether every majority of one shares a voter with every majority of the other.

        Sets that differ by one voter do, and no others are ever needed (KIP-853).
        """
        mine, theirs = set(self.keys), set(other.keys)
        return len(mine - theirs) <= 1 and len(theirs - mine) <= 1


def on_listener(name: str, endpoints: Iterable[Endpoint]) -> Endpoint | None:
    """The endpoint of the listener of that name, in whatever case it is written."""
    return next((e for e in endpoints if e.name.upper() == name.upper()), None)


def _voter_of(voter: control.Voter) -> Voter:
    versions = voter.kraft_version_feature
    return Voter(
        ReplicaKey(voter.voter_id, voter.voter_directory_id),
        tuple(Endpoint(e.name, e.host, e.port) for e in voter.endpoints),
        versions.min_supported_version,
        versions.max_supported_version,
    )


def _record_of(voter: Voter) -> control.Voter:
    return control.Voter(
        voter_id=voter.key.id,
        voter_directory_id=voter.key.directory_id,
        endpoints=[
            control.Endpoint(name=e.name, host=e.host, port=e.port) for e in voter.endpoints
        ],
        kraft_version_feature=control.KRaftVersionFeature(
            min_supported_version=voter.min_kraft_version,
            max_supported_version=voter.max_kraft_version,
        ),
    )
