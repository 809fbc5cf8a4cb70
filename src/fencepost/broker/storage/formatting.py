"""Makes empty directories those of a node of a cluster, before the node is started first.

What is written is what Kafka's storage tool writes:

* `meta.properties` in every directory: the cluster, the node, an id of the directory's own;
* on a controller, in the directory of the metadata log, the bootstrap snapshot 0-0: the level of
  kraft.version and the first voters in its header (KIP-853), and the records that the first active
  controller writes into the log: the feature levels with `metadata.version` first, and the users of
  SCRAM (KIP-900, KIP-1170). That of a controller which joins a cluster whose voters are in the log
  names no voters, so it never leads an empty log and its records stay unread.

The snapshot comes first and `meta.properties` last, so that a directory on which a crash came down
is one that has not been formatted. Everything is checked before anything is written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from fencepost.addresses import AddressError, parse_address
from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.broker.config.features import (
    ELIGIBLE_LEADER_REPLICAS,
    KRAFT_VERSION,
    METADATA_VERSION,
    SUPPORTED_FEATURES,
    default_levels,
)
from fencepost.broker.config.release_versions import name_of
from fencepost.broker.storage.data_dirs import HARMLESS_FILES
from fencepost.log.disk import Disk
from fencepost.log.errors import LogDirNotFormattedError, LogError
from fencepost.log.meta import MetaProperties, format_log_dir, read_meta_properties
from fencepost.log.names import LOCK_FILE
from fencepost.log.snapshots import (
    BOOTSTRAP_ID,
    SnapshotHeader,
    SnapshotStore,
    parse_snapshot_file,
)
from fencepost.machines.controller.partition_change import ELR_SINCE
from fencepost.machines.quorum.voters import Endpoint, ReplicaKey, Voter, VoterSet
from fencepost.runtime.metadata.host import METADATA_KEY
from fencepost.wire.records.metadata import (
    FeatureLevelRecord,
    UserScramCredentialRecord,
    encode_record,
)
from fencepost.wire.types import Uuid

_RESERVED_IDS: Final = 100
_VOTER: Final = r"([0-9]{1,10})@(.+):([A-Za-z0-9_-]{22})"


class FormatError(LogError):
    """What is asked for does not go together, or with what is there."""


class FormatPlan(Struct, frozen=True):
    """What to write. `voters` is None where the voters are configured, or known to others."""

    cluster_id: str
    metadata_directory_id: Uuid
    features: Mapping[str, int]
    voters: VoterSet | None = None
    ignore_formatted: bool = False
    scram_users: tuple[UserScramCredentialRecord, ...] = ()
    """The users that the cluster has from its first start."""
    is_directory_id_given: bool = False
    """Whether a metadata directory that is formatted must have `metadata_directory_id`."""

    @property
    def kraft_version(self) -> int:
        """The level of kraft.version."""
        return self.features.get(KRAFT_VERSION.name, 0)


def random_id() -> Uuid:
    """An id that is none of the reserved ones, and needs no quotes anywhere."""
    while True:
        drawn = Uuid.random()
        if not is_reserved(drawn) and not str(drawn).startswith("-"):
            return drawn


def is_reserved(id_: Uuid) -> bool:
    """Whether it stands for something else than the id of a directory or of a topic (KIP-858)."""
    return int.from_bytes(id_, "big") < _RESERVED_IDS


def standalone_voters(config: BrokerConfig, directory_id: Uuid) -> VoterSet:
    """This controller as the only voter. FormatError for a node that is none, or has no port."""
    told = config.advertised_controllers(config.controller_listeners)
    if not config.is_controller or not told:
        raise FormatError(
            "a standalone voter is a controller that listens: set process.roles,"
            " controller.listener.names and listeners"
        )
    host, port = told[0].host or "localhost", told[0].port
    if port == 0:
        raise FormatError("a voter's listener needs a port of its own, not 0")
    return VoterSet((_voter(config.node_id, told[0].name, host, port, directory_id),))


def parse_voters(text: str, listener: str) -> VoterSet:
    """Voters as `ID@HOST:PORT:DIRECTORY_ID`, separated by commas. FormatError."""
    voters = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        match = re.fullmatch(_VOTER, part)
        if match is None:
            raise FormatError(f"{part!r} is not of the form ID@HOST:PORT:DIRECTORY_ID")
        node_id, directory_id = int(match[1]), Uuid.from_string(match[3])
        if node_id > (1 << 31) - 1:
            raise FormatError(f"{part!r}: there is no such node id")
        try:
            host, port = parse_address(match[2])
        except AddressError as error:
            raise FormatError(f"{part!r}: {match[2]!r} is not {error}") from None
        if is_reserved(directory_id):
            raise FormatError(f"{part!r}: this directory id is one of those that are reserved")
        voters.append(_voter(node_id, listener, host, port, directory_id))
    if not voters:
        raise FormatError("no voters are given")
    try:
        return VoterSet(tuple(voters))
    except ValueError as error:
        raise FormatError(str(error)) from None


def check_own_voter(config: BrokerConfig, voters: VoterSet) -> None:
    """Whether a controller is among the first voters, at a port of its own. FormatError.

    Hosts are not compared: one machine has many names.
    """
    own = voters.get(config.node_id)
    if not config.is_controller:
        if own is not None:
            raise FormatError(f"node {config.node_id} is no controller and cannot be a voter")
        return
    if own is None:
        raise FormatError(
            f"node.id={config.node_id} is a controller and not among the initial controllers"
            f" {', '.join(map(str, voters.ids))}; one that joins later is formatted with"
            " --no-initial-controllers"
        )
    told = config.advertised_controllers(config.controller_listeners)
    ports = {one.name: one.port for one in told}
    for endpoint in own.endpoints:
        port = ports.get(endpoint.name, 0)
        if port not in (0, endpoint.port):
            raise FormatError(
                f"the initial controllers have node {config.node_id} at port {endpoint.port}, and"
                f" its listener {endpoint.name} is at {port}"
            )


def _voter(node_id: int, listener: str, host: str, port: int, directory_id: Uuid) -> Voter:
    endpoints = (Endpoint(listener, host, port),)
    return Voter(
        ReplicaKey(node_id, directory_id),
        endpoints,
        KRAFT_VERSION.min_level,
        KRAFT_VERSION.max_level,
    )


def choose_features(asked: Mapping[str, int], *, has_dynamic_voters: bool) -> dict[str, int]:
    """The level of every feature: as asked, else that of new clusters. FormatError for what cannot
    be.

    `has_dynamic_voters` says that the voters are in the log, those of this node's plan or of the
    cluster that it joins.
    """
    known = {feature.name: feature for feature in SUPPORTED_FEATURES}
    for name, level in asked.items():
        feature = known.get(name)
        if feature is None:
            raise FormatError(f"there is no feature {name}; there are {', '.join(sorted(known))}")
        if not feature.min_level <= level <= feature.max_level:
            raise FormatError(
                f"{name} goes from {feature.min_level} to {feature.max_level}, not to {level}"
            )
    metadata_version = asked.get(METADATA_VERSION.name, METADATA_VERSION.max_level)
    levels = default_levels(metadata_version)
    levels[KRAFT_VERSION.name] = int(has_dynamic_voters)
    levels.update(asked)
    if levels[ELIGIBLE_LEADER_REPLICAS.name] and metadata_version < ELR_SINCE:
        raise FormatError(
            f"{ELIGIBLE_LEADER_REPLICAS.name}=1 needs {METADATA_VERSION.name} {name_of(ELR_SINCE)}"
            f" or later, not {name_of(metadata_version)}"
        )
    if bool(levels[KRAFT_VERSION.name]) != has_dynamic_voters:
        raise FormatError(
            f"{KRAFT_VERSION.name}={levels[KRAFT_VERSION.name]} and the voters do not go together:"
            " 1 has them in the log (--standalone, --initial-controllers,"
            " --no-initial-controllers), 0 in the configuration"
        )
    return levels


def format_directories(
    disk: Disk, config: BrokerConfig, plan: FormatPlan, wall_ms: int
) -> list[str]:
    """Format the configured directories; a line for each of what has been done.

    Raises FormatError and other LogErrors, LogDirLockedError if the node runs, OSError.
    """
    paths = [str(path) for path in config.log_dirs]
    metadata_path = str(config.metadata_log_dir)
    if metadata_path not in paths:
        paths.append(metadata_path)
    formatted = {path: _present(disk, path) for path in paths}
    _check_present(config, plan, formatted)
    lines = []
    for path in paths:
        if formatted[path] is not None:
            lines.append(f"{path} is formatted already")
            continue
        disk.mkdir(path)
        lock = disk.lock(f"{path}/{LOCK_FILE}")
        try:
            if path == metadata_path:
                _remove_begun(disk, f"{path}/{METADATA_KEY}")
                if config.is_controller:
                    _write_bootstrap(disk, f"{path}/{METADATA_KEY}", plan, wall_ms)
                disk.sync_dir(path)
            lines.append(_format(disk, config, plan, path, is_metadata=path == metadata_path))
        finally:
            lock.release()
    return lines


def _present(disk: Disk, path: str) -> MetaProperties | None:
    """What a directory says of itself; None if it is there to be formatted. LogError, OSError."""
    if disk.exists(path) and not disk.is_dir(path):
        raise FormatError(f"{path} is not a directory")
    try:
        return read_meta_properties(disk, path)
    except LogDirNotFormattedError:
        pass
    names = disk.list(path) if disk.exists(path) else []
    foreign = [
        name for name in names if name not in HARMLESS_FILES and not _is_begun(disk, path, name)
    ]
    if foreign:
        raise FormatError(f"{path} is not empty: {foreign[0]} is in it, and no meta.properties")
    return None


def _is_begun(disk: Disk, path: str, name: str) -> bool:
    """Whether a name is of what an earlier formatting, cut short, has left."""
    if name != METADATA_KEY:
        return False
    parsed = [parse_snapshot_file(file) for file in disk.list(f"{path}/{name}")]
    return all(one is not None and one[0] == BOOTSTRAP_ID for one in parsed)


def _remove_begun(disk: Disk, directory: str) -> None:
    """Remove what an earlier formatting, cut short, has left: it may have had another plan.

    A controller that is to join others would lead a cluster of its own with its snapshot.
    """
    if disk.exists(directory):
        for name in disk.list(directory):
            disk.unlink(f"{directory}/{name}")
        disk.rmdir(directory)


def _check_present(
    config: BrokerConfig, plan: FormatPlan, formatted: Mapping[str, MetaProperties | None]
) -> None:
    for path, meta in formatted.items():
        if meta is None:
            continue
        if (meta.cluster_id, meta.node_id) != (plan.cluster_id, config.node_id):
            raise FormatError(
                f"{path} belongs to node {meta.node_id} of cluster {meta.cluster_id}, not to node"
                f" {config.node_id} of cluster {plan.cluster_id}"
            )
        is_metadata = path == str(config.metadata_log_dir)
        wanted = plan.metadata_directory_id
        if plan.is_directory_id_given and is_metadata and meta.directory_id != wanted:
            raise FormatError(
                f"{path} is formatted already, with directory id {meta.directory_id} and not"
                f" {wanted}"
            )
        if not plan.ignore_formatted:
            raise FormatError(
                f"{path} is formatted already; --ignore-formatted leaves it and formats the others"
            )


def _format(
    disk: Disk, config: BrokerConfig, plan: FormatPlan, path: str, *, is_metadata: bool
) -> str:
    """Format one directory, and say so."""
    directory_id = plan.metadata_directory_id if is_metadata else random_id()
    format_log_dir(
        disk,
        path,
        cluster_id=plan.cluster_id,
        node_id=config.node_id,
        directory_id=directory_id,
    )
    kind = "metadata directory" if is_metadata else "data directory"
    level = name_of(plan.features[METADATA_VERSION.name])
    return f"formatted {kind} {path} ({directory_id}) with {METADATA_VERSION.name} {level}"


def _write_bootstrap(disk: Disk, directory: str, plan: FormatPlan, wall_ms: int) -> None:
    """Write the bootstrap snapshot, durably. OSError."""
    disk.mkdir(directory)
    voters = None if plan.voters is None else plan.voters.to_record()
    header = SnapshotHeader(wall_ms, plan.kraft_version, voters)
    store = SnapshotStore(disk, directory)
    writer = store.begin(BOOTSTRAP_ID, header, wall_ms)
    writer.extend(
        encode_record(record) for record in (*_feature_records(plan.features), *plan.scram_users)
    )
    writer.finish()
    store.publish(writer)


def _feature_records(features: Mapping[str, int]) -> Sequence[FeatureLevelRecord]:
    """`metadata.version` first; kraft.version has a record of its own kind."""
    others = sorted(features.keys() - {METADATA_VERSION.name, KRAFT_VERSION.name})
    names = [METADATA_VERSION.name, *(name for name in others if features[name] > 0)]
    return [FeatureLevelRecord(name=name, feature_level=features[name]) for name in names]
