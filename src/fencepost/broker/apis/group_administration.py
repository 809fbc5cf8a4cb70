"""What a broker serves to administrators of groups; `runtime.requests` decides."""

from __future__ import annotations

from fencepost.broker.net.registry import handles
from fencepost.runtime.requests.consumer_group_describe import consumer_group_describe
from fencepost.runtime.requests.delete_groups import delete_groups
from fencepost.runtime.requests.describe_groups import describe_groups
from fencepost.runtime.requests.list_groups import list_groups
from fencepost.runtime.requests.offset_delete import offset_delete
from fencepost.wire.api.consumer_group_describe import ConsumerGroupDescribeRequest
from fencepost.wire.api.delete_groups import DeleteGroupsRequest
from fencepost.wire.api.describe_groups import DescribeGroupsRequest
from fencepost.wire.api.list_groups import ListGroupsRequest
from fencepost.wire.api.offset_delete import OffsetDeleteRequest

handles(DescribeGroupsRequest)(describe_groups)
handles(ConsumerGroupDescribeRequest)(consumer_group_describe)
handles(ListGroupsRequest)(list_groups)
handles(DeleteGroupsRequest)(delete_groups)
handles(OffsetDeleteRequest)(offset_delete)
