"""What a broker serves about offsets in its logs; `runtime.requests` decides."""

from __future__ import annotations

from fencepost.broker.net.registry import handles
from fencepost.runtime.requests.delete_records import delete_records
from fencepost.runtime.requests.list_offsets import list_offsets
from fencepost.runtime.requests.offset_for_leader_epoch import offset_for_leader_epoch
from fencepost.wire.api.delete_records import DeleteRecordsRequest
from fencepost.wire.api.list_offsets import ListOffsetsRequest
from fencepost.wire.api.offset_for_leader_epoch import OffsetForLeaderEpochRequest

handles(ListOffsetsRequest)(list_offsets)
handles(DeleteRecordsRequest)(delete_records)
handles(OffsetForLeaderEpochRequest)(offset_for_leader_epoch)
