"""`FeatureAdmin`: at which levels the cluster's features run, and changes of them (KIP-584).

A level is changed by the controller, and by no other way: `kraft.version` as well, which the quorum
itself keeps (KIP-853). It is finalized only if every node can run it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fencepost.client import asking
from fencepost.client.cluster import Cluster
from fencepost.client.cluster_view import ClusterView
from fencepost.client.conversation import Conversation
from fencepost.client.errors import BrokerError
from fencepost.client.faces import blocking
from fencepost.client.metadata import Node
from fencepost.wire.api.api_versions import ApiVersionsRequest
from fencepost.wire.api.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from fencepost.wire.errors import ErrorCode

UPGRADE: Final = 1
SAFE_DOWNGRADE: Final = 2


@dataclass(frozen=True, slots=True)
class FeatureLevel:
    """A feature, its level in the cluster (0: off), and the levels that the asked node can run."""

    name: str
    level: int
    min_level: int
    max_level: int


def describing_features(
    view: ClusterView[Any], node: Node | None = None
) -> Conversation[list[FeatureLevel]]:
    """Every feature that is in force or that the node can run, by name; of any broker if None.

    Raises BrokerError for what the broker answers.
    """
    request = ApiVersionsRequest(client_software_name="fencepost", client_software_version="1")
    if node is None:
        response = yield from asking.request_any(view, request, lambda r: r.error_code)
    else:
        response = yield from asking.request_node(node, request)
        if response.error_code:
            what = "cannot describe features"
            raise BrokerError.of(response.error_code, what, host=node.address)
    levels = {one.name: one.max_version_level for one in response.finalized_features}
    ranges = {one.name: (one.min_version, one.max_version) for one in response.supported_features}
    return [
        FeatureLevel(name, levels.get(name, 0), *ranges.get(name, (0, 0)))
        for name in sorted(levels.keys() | ranges.keys())
    ]


def updating_features(
    view: ClusterView[Any],
    levels: Mapping[str, int],
    *,
    downgrade: bool = False,
    validate_only: bool = False,
) -> Conversation[None]:
    """Change the levels, all or none of them; `downgrade` is for levels lower than now."""
    request = UpdateFeaturesRequest(
        timeout_ms=int(view.config.request_timeout_ms),
        feature_updates=[
            FeatureUpdateKey(
                feature=name,
                max_version_level=level,
                upgrade_type=SAFE_DOWNGRADE if downgrade else UPGRADE,
            )
            for name, level in levels.items()
        ],
        validate_only=validate_only,
    )
    response = yield from asking.request_controller(view, request, _passing_error)
    if response.error_code:
        text = response.error_message or "the features were not changed"
        raise BrokerError.of(response.error_code, text)
    for result in response.results:
        if result.error_code:
            text = result.error_message or f"{result.feature} was not changed"
            raise BrokerError.of(result.error_code, text)


class FeatureAdmin:
    """Asks about features and changes them. All methods raise ClientError."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    describe = blocking(describing_features)
    update = blocking(updating_features)


def _passing_error(response: UpdateFeaturesResponse) -> int:
    """The error, if another broker or a moment later may say otherwise."""
    code = response.error_code
    return code if code == ErrorCode.NOT_CONTROLLER else 0
