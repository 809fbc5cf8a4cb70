"""What a broker serves to members of groups; `runtime.requests` decides."""

from __future__ import annotations

from fencepost.broker.net.registry import handles
from fencepost.runtime.requests.heartbeat import heartbeat
from fencepost.runtime.requests.join_group import join_group
from fencepost.runtime.requests.leave_group import leave_group
from fencepost.runtime.requests.offset_commit import offset_commit
from fencepost.runtime.requests.offset_fetch import offset_fetch
from fencepost.runtime.requests.sync_group import sync_group
from fencepost.wire.api.heartbeat import HeartbeatRequest
from fencepost.wire.api.join_group import JoinGroupRequest
from fencepost.wire.api.leave_group import LeaveGroupRequest
from fencepost.wire.api.offset_commit import OffsetCommitRequest
from fencepost.wire.api.offset_fetch import OffsetFetchRequest
from fencepost.wire.api.sync_group import SyncGroupRequest

handles(OffsetCommitRequest)(offset_commit)
handles(OffsetFetchRequest)(offset_fetch)
handles(JoinGroupRequest)(join_group)
handles(HeartbeatRequest)(heartbeat)
handles(LeaveGroupRequest)(leave_group)
handles(SyncGroupRequest)(sync_group)
