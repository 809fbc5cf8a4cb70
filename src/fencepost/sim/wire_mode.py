"""Messages that really travel: encoded at a version that is drawn, and decoded again.

In one seed of ten nothing reaches a node that the codec has not carried there, at any version that
two Fencepost or Kafka controllers could agree on. What an old version cannot say is dropped as a
broker drops it; where that would change what is asked, the answer is the one a broker gives. In
every seed, what goes to or from a node that is old (`faults/version_mix.py`) travels at the lowest.
"""

from __future__ import annotations

from fencepost.machines.broker.requests import for_version
from fencepost.machines.quorum.versions import fit
from fencepost.sim.calls import Call
from fencepost.sim.tape import Lane
from fencepost.wire.errors import EncodeError
from fencepost.wire.message import Message

_BROKER_FLOORS: dict[str, int] = {
    "AlterPartitionRequest": 3,
    "BrokerHeartbeatRequest": 2,
    "BrokerRegistrationRequest": 4,
    "ConsumerGroupHeartbeatRequest": 1,
    "ListOffsetsRequest": 4,
    "JoinGroupRequest": 4,
    "LeaveGroupRequest": 3,
    "OffsetCommitRequest": 2,
    "OffsetFetchRequest": 8,
    "OffsetForLeaderEpochRequest": 2,
    "ProduceRequest": 3,
    "SyncGroupRequest": 5,
    "TxnOffsetCommitRequest": 3,
    "WriteTxnMarkersRequest": 2,
}
"""The lowest versions of brokers: those with broker epochs, cordoned directories, batches, several
groups, member ids that must be asked for, protocols that are named, and markers that say which
version of transactions they are of."""
_STATIC_FLOORS: dict[str, int] = {**_BROKER_FLOORS, "FetchRequest": 15}
_DYNAMIC_FLOORS: dict[str, int] = {
    **_BROKER_FLOORS,
    "VoteRequest": 1,
    "BeginQuorumEpochRequest": 1,
    "EndQuorumEpochRequest": 1,
    "FetchRequest": 17,
    "FetchSnapshotRequest": 1,
}
"""The lowest versions that controllers agree on; with dynamic voters, those with directory ids.

Below 15 a follower names itself in another field of Fetch; Kafka 3.5 and later speak 15.
"""


class Travel:
    """Carries messages through the codec."""

    def __init__(self, lane: Lane, is_dynamic: bool) -> None:
        self._lane = lane
        self._floors = _DYNAMIC_FLOORS if is_dynamic else _STATIC_FLOORS

    def request(self, call: Call) -> Message | None:
        """The call's request as it arrives; None if its version cannot say what is asked."""
        kind = type(call.request)
        lowest, highest = call.between
        floor = max(self._floors.get(kind.__name__, kind.min_version), lowest or 0)
        newest = kind.max_version if highest is None else min(kind.max_version, highest)
        call.version = floor
        if not (call.source.is_old or call.target.is_old):
            # The newest version is the benign choice.
            call.version = newest - self._lane.pick(newest - floor + 1)
        try:
            data = bytes(for_version(call.request, call.version).encode(call.version))
        except EncodeError:
            return None
        return kind.decode(data, call.version)

    def response(self, call: Call) -> Message:
        """The call's response as it comes back."""
        assert call.response is not None, "it was answered"
        kind = type(call.response)
        response = fit(call.response, call.version)
        return kind.decode(bytes(response.encode(call.version)), call.version)
