"""AddRaftVoter (key 80): make a controller a voter of the metadata quorum (KIP-853).

Sent by the administrator's client, to a controller or to a broker, which forwards it; and by a
controller that joins on its own (`controller.quorum.auto.join.enable`, KIP-1186). The new voter
must already follow the log: the leader asks it which kraft.version it can run, sees that it has
caught up, and then appends the new voter set. One change of the voters at a time. v1 lets the
leader answer before that set is committed, which a joining controller needs, since the commit
may take its own fetch (KIP-1186).

The request needs ALTER on the cluster.
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Bool, Int16, Int32, String, UInt16, Uuid


class Listener(Struct):
    """One listener of the new voter."""

    name: String = field(doc="Name of the listener.")
    host: String = field(doc="Host name or address other voters can connect to.")
    port: UInt16 = field(doc="TCP port that goes with `host`.")


class AddRaftVoterRequest(
    Request["AddRaftVoterResponse"], api_key=80, versions="0-1", flexible="0+"
):
    """Asks the leader to add one voter."""

    cluster_id: String | None = field(
        doc="Id of the cluster, error 104 if it is another; null is not checked.",
    )
    timeout_ms: Int32 = field(doc="Milliseconds the caller is willing to wait for the answer.")
    voter_id: Int32 = field(doc="Node id of the new voter; error 126 when a voter has it.")
    voter_directory_id: Uuid = field(
        doc="Id of the directory its metadata log is in; zero is error 42.",
    )
    listeners: list[Listener] = field(
        doc="Where it is reached; error 42 without the listener the voters use.",
    )
    ack_when_committed: Bool = field(
        "1+",
        default=True,
        doc=(
            "Whether to answer when the new voter set is committed; if false, as soon as the "
            "leader has written it. v0 waits for the commit."
        ),
    )


class AddRaftVoterResponse(Message, api_key=80, kind="response", versions="0-1", flexible="0+"):
    """Whether there is a new voter."""

    throttle_time_ms: Int32 = field(
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    error_code: Int16 = field(
        doc=(
            "0; 6 not the leader, 126 a voter already, 35 the quorum is static (kraft.version 0), "
            "42, 104; 7 to try again: another change is pending, the new voter lags behind, or "
            "there was no commit in time."
        ),
    )
    error_message: String | None = field(
        ignorable=True,
        doc="What went wrong in words, or null when `error_code` says enough.",
    )
