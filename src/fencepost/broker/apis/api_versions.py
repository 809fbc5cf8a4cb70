"""ApiVersions (key 18) v0-5: what this node serves, and the features the cluster agreed on.

The list is that of `broker.net.served`, by which requests find their handlers; it is another one on
a controller's listener than on a broker's. Two rules come with it: a version we do
not know is answered in v0 with error 35 and the range of this API (KIP-511), and in v3 a feature
whose lowest level is 0 is left out, because clients of that version refuse it (KIP-1022).

From v5 a client may name the cluster and the node that it believes to have reached (KIP-1242). One
of them without the other is 42; a broker that is another one answers 129, and the client looks for
the cluster again by its bootstrap addresses. Controllers do not compare them, and brokers do not
before a client has logged in, as in Kafka.
"""

from __future__ import annotations

import re
from typing import Final

from fencepost.broker.cluster.metadata_cache import MetadataCache
from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.broker.config.features import SUPPORTED_FEATURES
from fencepost.broker.net.pending_request import PendingRequest
from fencepost.broker.net.registry import BROKER, CONTROLLER, handles
from fencepost.wire.api.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from fencepost.wire.errors import ErrorCode

NAMES_CLIENT_FROM: Final = 3
NO_NODE: Final = -1
"""The node id of a client that does not know which node it has reached."""
SOFTWARE_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


@handles(ApiVersionsRequest, listeners=(BROKER,))
def handle(
    context: PendingRequest,
    request: ApiVersionsRequest,
    *,
    config: BrokerConfig,
    metadata: MetadataCache,
) -> ApiVersionsResponse:
    """Answer with ranges and features, or with an error alone."""
    expected = (request.cluster_id, request.node_id)
    is_expected = request.cluster_id is None or expected == (metadata.cluster_id, config.node_id)
    is_compared = _is_valid(request, context.api_version) and not context.is_before_login
    if is_compared and not is_expected:
        return ApiVersionsResponse(error_code=int(ErrorCode.REBOOTSTRAP_REQUIRED))
    return _answer(context, request, metadata)


@handles(ApiVersionsRequest, listeners=(CONTROLLER,))
def handle_on_controller(
    context: PendingRequest, request: ApiVersionsRequest, *, metadata: MetadataCache
) -> ApiVersionsResponse:
    """Answer without a look at the node that the client believes to have reached."""
    return _answer(context, request, metadata)


def _answer(
    context: PendingRequest, request: ApiVersionsRequest, metadata: MetadataCache
) -> ApiVersionsResponse:
    if not _is_valid(request, context.api_version):
        return ApiVersionsResponse(error_code=int(ErrorCode.INVALID_REQUEST))
    context.note_versions_answered()
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in sorted(context.routes.advertised.items())
        ],
        supported_features=[
            SupportedFeatureKey(name=feature.name, min_version=low, max_version=feature.max_level)
            for feature in SUPPORTED_FEATURES
            if (low := feature.min_level) > 0 or context.api_version >= 4
        ],
        finalized_features_epoch=metadata.image.offset,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in sorted(metadata.finalized_features.items())
            if level > 0
        ],
    )


def _is_valid(request: ApiVersionsRequest, version: int) -> bool:
    """Whether the client's name is well-formed (v3), and the node's without a gap (v5)."""
    if (request.cluster_id is None) is not (request.node_id == NO_NODE):
        return False
    return version < NAMES_CLIENT_FROM or bool(
        SOFTWARE_NAME.fullmatch(request.client_software_name)
        and SOFTWARE_NAME.fullmatch(request.client_software_version)
    )
