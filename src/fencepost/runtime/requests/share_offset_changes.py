"""What AlterShareGroupOffsets and DeleteShareGroupOffsets check before anything else."""

from __future__ import annotations

from typing import Final

from fencepost.machines.group.share.offsets import UNKNOWN_PARTITION
from fencepost.machines.image import ClusterImage
from fencepost.runtime.requests.access import Access
from fencepost.runtime.requests.context import RequestContext
from fencepost.runtime.requests.permissions import Permission
from fencepost.runtime.requests.share_group_heartbeat import has_share_groups
from fencepost.wire.errors import ErrorCode

WORDS: Final = {
    ErrorCode.UNSUPPORTED_VERSION: "The version of API is not supported.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.INVALID_GROUP_ID: "The configured groupId is invalid.",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: UNKNOWN_PARTITION,
}
"""What Kafka says of these errors."""


def refuse_change(
    access: Access,
    context: RequestContext,
    image: ClusterImage,
    permission: Permission,
    group_id: str,
) -> ErrorCode:
    """Why no offset of the share group may be changed; NONE if its coordinator is to decide."""
    if not has_share_groups(image):
        return ErrorCode.UNSUPPORTED_VERSION
    refusal = access.refusal(context, permission, group_id)
    if not refusal and not group_id:
        return ErrorCode.INVALID_GROUP_ID
    return refusal
