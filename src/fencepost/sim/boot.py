"""How a simulated node opens its directory: with the product's own steps, over a simulated disk."""

from __future__ import annotations

from msgspec.structs import replace

from fencepost.log.config import LogConfig
from fencepost.log.errors import CorruptFileError
from fencepost.log.log_dir import LogDir
from fencepost.log.meta import format_log_dir
from fencepost.log.snapshots import BOOTSTRAP_ID, SnapshotHeader, SnapshotStore
from fencepost.machines.controller.config import SUPPORTED_FEATURES
from fencepost.machines.quorum import QuorumConfig
from fencepost.machines.quorum.draft import NOT_SPOKEN
from fencepost.machines.quorum.voters import Endpoint, ReplicaKey, Voter, VoterSet
from fencepost.runtime.metadata.host import METADATA_KEY, MetadataHost
from fencepost.runtime.metadata.log import MetadataLogSettings, open_metadata
from fencepost.runtime.metadata.snapshot_generation import SnapshotRules
from fencepost.sim.options import Options
from fencepost.sim.oracle import Entry, entry_of
from fencepost.sim.surroundings import Process
from fencepost.wire.records.metadata import FeatureLevelRecord
from fencepost.wire.types import Uuid

CLUSTER_ID = "simulated"
NEWEST_METADATA = SUPPORTED_FEATURES["metadata.version"][1]
GROUP_FEATURES = ("group.version", "share.version", "streams.version")
DATA = "/data"
LISTENER = "CONTROLLER"


LOG_CONFIG = LogConfig.from_props({"retention.ms": "-1", "retention.bytes": "-1"})


def endpoint_of(node_id: int) -> Endpoint:
    """Where a simulated node is reached; the port says who it is."""
    return Endpoint(LISTENER, "simulated", 9_000 + node_id)


def static_voters(node_ids: tuple[int, ...]) -> VoterSet:
    """Voters that are configured: ids and addresses, no directories."""
    return VoterSet(tuple(Voter(ReplicaKey(id_), (endpoint_of(id_),)) for id_ in node_ids))


def directory_of(node_id: int, disk_number: int) -> Uuid:
    """The directory id of a node's n-th disk."""
    return Uuid(b"simulated disk" + bytes((disk_number, node_id)))


def founders(options: Options) -> VoterSet:
    """The voters that a dynamic quorum begins with: nodes with their first disks."""
    return VoterSet(
        tuple(
            Voter(ReplicaKey(id_, directory_of(id_, 1)), (endpoint_of(id_),), 0, 1)
            for id_ in options.voter_ids
        )
    )


def bootstrap_of(options: Options) -> tuple[FeatureLevelRecord, ...]:
    """What the first controller writes into the log of a cluster with features of its own."""
    levels = {
        "metadata.version": NEWEST_METADATA if options.has_elr else options.metadata_version,
        "eligible.leader.replicas.version": int(options.has_elr),
        "group.version": int(options.epoch_members > 0),
        "transaction.version": options.transaction_version if options.transactors else 0,
    }
    if options.members or options.share_consumers or options.streams_members:
        levels |= {name: SUPPORTED_FEATURES[name][1] for name in GROUP_FEATURES}
    if any(levels.values()) and not levels["metadata.version"]:
        levels["metadata.version"] = NEWEST_METADATA
    return tuple(
        FeatureLevelRecord(name=name, feature_level=level)
        for name, level in levels.items()
        if level
    )


def format_node(node: Process) -> None:
    """Format the node's directory if it is new, as `fencepost format` does. LogError, OSError."""
    options, disk = node.world.options, node.disk
    is_new = not disk.exists(DATA)
    format_log_dir(
        disk,
        DATA,
        cluster_id=CLUSTER_ID,
        node_id=node.id,
        directory_id=node.directory_id,
        ignore_formatted=True,
    )
    is_founder = node.directory_id in [voter.key.directory_id for voter in founders(options).voters]
    if is_new and is_founder and options.is_dynamic and not options.begins_static:
        directory = f"{DATA}/{METADATA_KEY}"
        disk.mkdir(directory)
        header = SnapshotHeader(node.clocks.wall_ms(), 1, founders(options).to_record())
        store = SnapshotStore(disk, directory)
        writer = store.begin(BOOTSTRAP_ID, header, node.clocks.wall_ms())
        writer.finish()
        store.publish(writer)
        disk.sync_dir(DATA)


def open_node(node: Process) -> MetadataHost:
    """Format the directory if it is new, recover the log, make the machine. LogError, OSError."""
    world, disk = node.world, node.disk
    options = world.options
    format_node(node)
    is_static = not options.is_dynamic or options.begins_static
    node.log_dir = LogDir.open(disk, DATA)
    host = open_metadata(
        node.ports,
        node.log_dir,
        node.id,
        static_voters(options.voter_ids) if is_static else VoterSet(),
        QuorumConfig(
            cluster_id=CLUSTER_ID,
            directory_id=node.directory_id,
            election_timeout_ms=options.election_timeout_ms,
            fetch_timeout_ms=options.fetch_timeout_ms,
            request_timeout_ms=options.request_timeout_ms,
            fetch_max_bytes=options.fetch_max_bytes,
            fetch_snapshot_max_bytes=options.fetch_snapshot_max_bytes,
            retention_bytes=options.retention_bytes,
            listener=LISTENER,
            endpoints=(endpoint_of(node.id),),
            can_become_voter=node.can_become_voter,
            auto_join=options.joins and node.can_become_voter,
            bootstrap_servers=len(options.node_ids) if options.is_dynamic else 0,
            can_load_snapshots=node.id not in world.rules.draft_versions,
        ),
        MetadataLogSettings(
            replace(LOG_CONFIG, internal_segment_bytes=options.segment_bytes),
            SnapshotRules(options.snapshot_bytes, options.snapshot_interval_ms),
        ),
        wall_ms=node.clocks.wall_ms(),
        draw=node.draw,
        make_machine=world.rules.make_machine,
        rules=world.rules.metadata,
        follow_with_draft=world.rules.draft_versions.get(node.id, NOT_SPOKEN),
    )
    host.bootstrap_records = bootstrap_of(options)
    _watch_replacing(node, host)
    world.observer.recovered(node.id, _found_by(node, host), host.log.start_offset)
    world.observer.state_read(node.id, host.machine.state)
    return host


def _watch_replacing(node: Process, host: MetadataHost) -> None:
    """Tell the observer when the log is thrown away, which may be long after that was decided."""
    observer, log = node.world.observer, host.log
    start_over = log.truncate_fully_and_start_at

    def watched(offset: int) -> None:
        observer.snapshot_loaded(node.id, offset)
        start_over(offset)
        observer.oracle.started_over(node.id, offset)

    log.truncate_fully_and_start_at = watched  # type: ignore[method-assign]


def _found_by(node: Process, host: MetadataHost) -> list[Entry]:
    """What the node has in its log; behind damage, what the observer knows to be there."""
    known = node.world.observer.oracle.disks[node.id]
    try:
        return entries_of(host)
    except CorruptFileError:
        if not known.is_damaged:
            raise
        log = host.log
        kept = [e for e in known.entries if log.start_offset < e.next_offset <= log.end_offset]
        # A batch whose append a crash interrupted may be there, and the observer not know of it.
        unseen = kept[-1].next_offset if kept else log.start_offset
        return kept + entries_of(host, unseen)


def entries_of(host: MetadataHost, start_offset: int | None = None) -> list[Entry]:
    """Every batch of the log as it is on disk, from its start or `start_offset` on. LogError."""
    log = host.log
    start_offset = log.start_offset if start_offset is None else start_offset
    if start_offset >= log.end_offset:
        return []
    batches = log.read_all_batches(start_offset, log.end_offset)
    return [entry_of(batch) for _, batch in batches]
