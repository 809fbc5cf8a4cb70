"""RemoveRaftVoter (key 81): take a voter out of the metadata quorum (KIP-853).

Sent by the administrator's client, to a controller or to a broker, which forwards it; and by a
controller that joins on its own and finds its id still among the voters with the directory of a
lost disk (KIP-1186). The answer comes when the smaller voter set is committed. The controller
may be down. If it runs, it goes on as an observer; a leader that removed itself resigns. Its
registration stays until UnregisterController.

The request needs ALTER on the cluster.
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, field
from fencepost.wire.types import Int16, Int32, String, Uuid


class RemoveRaftVoterRequest(
    Request["RemoveRaftVoterResponse"], api_key=81, versions="0", flexible="0+"
):
    """Asks the leader to remove one voter."""

    cluster_id: String | None = field(
        doc="Id of the cluster, error 104 if it is another; null is not checked.",
    )
    voter_id: Int32 = field(doc="Node id of the voter.")
    voter_directory_id: Uuid = field(
        doc="Directory id of the voter: error 127 unless both are those of one voter.",
    )


class RemoveRaftVoterResponse(Message, api_key=81, kind="response", versions="0", flexible="0+"):
    """Whether the voter is gone."""

    throttle_time_ms: Int32 = field(
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    error_code: Int16 = field(
        doc=(
            "0; 6 not the leader, 127 no such voter, 35 the quorum is static (kraft.version 0), "
            "42, 104; 7 to try again: another change is pending, or there was no commit in time."
        ),
    )
    error_message: String | None = field(
        ignorable=True,
        doc="What went wrong in words, or null when `error_code` says enough.",
    )
