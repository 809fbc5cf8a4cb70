"""FetchQuorumRecords, a draft without an API key: read the metadata log from a Raft leader.

KIP-595 first gave Raft an RPC of its own to replicate one partition, the metadata log. Before the
proposal was accepted, the RPC was dropped for Fetch, which at v12 learned what it could do more
(`fencepost.wire.draft.mapping` translates). It lived on a branch of Kafka from April to August 2020
under key 53, which is BeginQuorumEpoch today.

Every revision of the draft called itself version 0. The version numbers here are ours:

* v0 is the layout of the first page of the proposal: the cluster is an int32, the sender says
  whether it takes itself for a follower, and nothing is flexible.
* v1 is the last one on the branch: flexible, the cluster id is a string, the epoch is called
  LastFetchedEpoch, a leader may hold its answer back, and IsFollower is gone, since the leader
  knows the voters. A null cluster id, which a later page of the proposal allowed, is read as well;
  the branch would not read it, and its followers sent an empty one.

Answering, a leader compares the epochs, then looks where the epoch of the reader's last record
ends in its own log. Where that is before the reader's offset, or the epoch is not there, the
answer holds no records but the place to cut the reader's log at. -1 is "not set" in all of these
fields, and 0 is an offset like any other. On the branch 0 was "not set" too, and its followers took
only offsets above 0 for an order to cut: a log that had to be cut down to nothing stayed as it was.
So these classes serve followers of the branch, but cannot tell what its leaders mean by 0.
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, field
from fencepost.wire.types import Bool, Int16, Int32, Int64, Records, String


class FetchQuorumRecordsRequest(
    Request["FetchQuorumRecordsResponse"], versions="0-1", flexible="1+"
):
    """Asks the leader of the metadata log for what follows `fetch_offset`."""

    cluster_number: Int32 = field(
        "0",
        default=-1,
        name="ClusterId",
        doc="Cluster of the sender, as the number v0 has for it; -1 when not known.",
    )
    cluster_id: String | None = field(
        "1+",
        doc="Cluster of the sender; empty when not known, and null says the same.",
    )
    replica_id: Int32 = field(doc="Node that asks: a voter, or an observer.")
    leader_epoch: Int32 = field(doc="Term the sender believes in; another one is an error.")
    fetch_offset: Int64 = field(doc="First offset wanted: the end of the sender's log.")
    last_fetched_epoch: Int32 = field(
        doc="Leader epoch of the sender's last record; v0 calls it FetchEpoch.",
    )
    is_follower: Bool = field(
        "0",
        doc="Whether the sender takes itself for a voter that follows this leader.",
    )
    max_wait_time_ms: Int32 = field(
        "1+",
        doc="Milliseconds the answer may be held back for want of records.",
    )


class FetchQuorumRecordsResponse(Message, kind="response", versions="0-1", flexible="1+"):
    """Records that follow the offset, or where to cut the log before asking again."""

    error_code: Int16 = field(doc="0, or why there are no records; the only error there is.")
    leader_id: Int32 = field(default=-1, doc="Node that leads; -1 when unknown.")
    leader_epoch: Int32 = field(default=-1, doc="Latest term known; -1 when unknown.")
    next_fetch_offset: Int64 = field(
        default=-1,
        doc="Offset to cut the sender's log at, 0 included; -1 when its log is sound.",
    )
    next_fetch_offset_epoch: Int32 = field(
        default=-1,
        doc="Epoch of the record before that offset; -1 when there is nothing to cut.",
    )
    records: Records = field(doc="Whole batches from the offset on; empty, never null.")
    high_watermark: Int64 = field(
        default=-1,
        doc="Offset below which records are replicated to a majority; -1 when unknown.",
    )
    first_dirty_offset: Int64 = field(
        default=-1,
        doc="First offset of the log that no snapshot stands for; -1 when unknown.",
    )
    last_caught_up_time_ms: Int64 = field(
        default=-1,
        doc="When the sender last had all a majority had, ms since 1970; -1 when unknown.",
    )
