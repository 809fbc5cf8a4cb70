"""UpdateRaftVoter (key 82): a voter tells the leader where it is reached now (KIP-853).

Sent by a voter to the leader of the quorum when its listeners or the range of kraft.version it
can run differ from what the voter set says. The set of ids does not change, so the leader
answers as soon as it has written the new set; recent releases try the address with an ApiVersions
request before that. The request needs CLUSTER_ACTION.
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Int16, Int32, String, UInt16, Uuid


class Listener(Struct):
    """One listener of the voter."""

    name: String = field(doc="Name of the listener.")
    host: String = field(doc="Host name or address other voters can connect to.")
    port: UInt16 = field(doc="TCP port that goes with `host`.")


class KRaftVersionFeature(Struct):
    """The levels of kraft.version the voter can run; error 42 unless 0 <= lowest <= highest."""

    min_supported_version: Int16 = field(doc="Lowest level.")
    max_supported_version: Int16 = field(doc="Highest level.")


class UpdateRaftVoterRequest(
    Request["UpdateRaftVoterResponse"], api_key=82, versions="0", flexible="0+"
):
    """Asks the leader to change the entry of the sender in the voter set."""

    cluster_id: String | None = field(
        doc="Id of the cluster, error 104 if it is another; null is not checked.",
    )
    current_leader_epoch: Int32 = field(
        doc="Leader epoch that the voter knows: an older one is error 74, a newer one 75.",
    )
    voter_id: Int32 = field(doc="Node id of the voter.")
    voter_directory_id: Uuid = field(
        doc=(
            "Directory id of the voter, error 127 unless both are those of one voter; zero only "
            "where the voters are static and have no such ids."
        ),
    )
    listeners: list[Listener] = field(
        doc="All its listeners; error 42 without the one the voters use.",
    )
    k_raft_version_feature: KRaftVersionFeature = field(
        name="KRaftVersionFeature",
        doc="What it can run; error 42 when that leaves out the level the cluster has.",
    )


class CurrentLeader(Struct):
    """Who leads and where it is reached."""

    leader_id: Int32 = field(default=-1, doc="Node id of the leader; -1 when none is known.")
    leader_epoch: Int32 = field(
        default=-1,
        doc="Latest leader epoch the answering node knows of; -1 when it says none.",
    )
    host: String = field(doc="Host name or address a client can connect to; empty when unknown.")
    port: Int32 = field(doc="TCP port that goes with `host`; 0 when unknown.")


class UpdateRaftVoterResponse(Message, api_key=82, kind="response", versions="0", flexible="0+"):
    """Whether the voter set says so now."""

    throttle_time_ms: Int32 = field(
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    error_code: Int16 = field(
        doc=(
            "0; 6 not the leader, 74 or 75 another epoch, 127 no such voter, 35 old releases with "
            "kraft.version 0, 42, 104; 7 to try again: another change is pending, or the voter "
            "cannot be reached."
        ),
    )
    current_leader: CurrentLeader = field(
        tag=0,
        doc="The leader; with errors too, so that a voter who asked the wrong node finds it.",
    )
