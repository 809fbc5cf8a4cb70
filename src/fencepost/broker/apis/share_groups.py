"""The APIs of share groups (76, 77, 90, 91, 92); each is decided in `runtime.requests`."""

from fencepost.broker.net.registry import handles
from fencepost.runtime.requests.alter_share_group_offsets import alter_share_group_offsets
from fencepost.runtime.requests.delete_share_group_offsets import delete_share_group_offsets
from fencepost.runtime.requests.describe_share_group_offsets import describe_share_group_offsets
from fencepost.runtime.requests.share_group_describe import share_group_describe
from fencepost.runtime.requests.share_group_heartbeat import share_group_heartbeat
from fencepost.wire.api.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from fencepost.wire.api.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from fencepost.wire.api.describe_share_group_offsets import DescribeShareGroupOffsetsRequest
from fencepost.wire.api.share_group_describe import ShareGroupDescribeRequest
from fencepost.wire.api.share_group_heartbeat import ShareGroupHeartbeatRequest

handles(ShareGroupHeartbeatRequest, stores_text=True)(share_group_heartbeat)
handles(ShareGroupDescribeRequest)(share_group_describe)
handles(DescribeShareGroupOffsetsRequest)(describe_share_group_offsets)
handles(AlterShareGroupOffsetsRequest, stores_text=True)(alter_share_group_offsets)
handles(DeleteShareGroupOffsetsRequest)(delete_share_group_offsets)
