"""The settings of a quorum machine, under the names of Kafka's `controller.quorum.*` configs."""

from __future__ import annotations

from msgspec import Struct

from fencepost.machines.quorum.voters import Endpoint
from fencepost.wire.types import Uuid

MAX_PENDING_APPENDS = 10_000
"""Appends that may wait for commitment; one more is refused."""

MAX_PARKED_FETCHES = 10_000
"""Fetches that may wait for data; one more is answered at once."""

MAX_OBSERVERS = 10_000
"""Observers whose progress is kept for DescribeQuorum; more of them still fetch."""


class QuorumConfig(Struct, frozen=True):
    """Timeouts in milliseconds, sizes in bytes.

    `cluster_id` and `directory_id` are checked against requests that name them. An election timeout
    is drawn from [election_timeout_ms, 2 * election_timeout_ms).

    `listener` names the listener that voters reach each other on, and `endpoints` are this node's
    own. It can run the levels of kraft.version from `min_kraft_version` to `max_kraft_version`.
    `can_become_voter` says that it is a controller, `auto_join` that it asks to be made a voter
    (`controller.quorum.auto.join.enable`, KIP-1186). `bootstrap_servers` is how many addresses
    there are to ask when no leader is known (`controller.quorum.bootstrap.servers`).

    `retention_bytes` and `retention_ms` (`metadata.max.retention.*`) say when the oldest snapshot
    goes and the log before the next with it; negative means never. Without `can_load_snapshots` a
    node stops when its leader has nothing else for it.
    """

    cluster_id: str | None = None
    directory_id: Uuid = Uuid.ZERO
    election_timeout_ms: int = 1_000
    election_backoff_max_ms: int = 1_000
    fetch_timeout_ms: int = 2_000
    request_timeout_ms: int = 2_000
    retry_backoff_ms: int = 20
    fetch_max_wait_ms: int = 500
    fetch_max_bytes: int = 1 << 20
    fetch_snapshot_max_bytes: int = 1 << 20
    observer_session_ms: int = 300_000
    listener: str = "CONTROLLER"
    endpoints: tuple[Endpoint, ...] = ()
    min_kraft_version: int = 0
    max_kraft_version: int = 1
    can_become_voter: bool = True
    auto_join: bool = False
    bootstrap_servers: int = 0
    retention_bytes: int = 100 << 20
    retention_ms: int = 7 * 24 * 3600 * 1000
    can_load_snapshots: bool = True

    @property
    def check_quorum_timeout_ms(self) -> int:
        """How long a leader goes on without hearing from a majority: 1.5 fetch timeouts."""
        return self.fetch_timeout_ms * 3 // 2

    @property
    def begin_quorum_interval_ms(self) -> int:
        """How often a leader reminds voters that do not fetch from it."""
        return self.fetch_timeout_ms // 2
