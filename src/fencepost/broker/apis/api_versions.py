"""ApiVersions (key 18) v0-4: what this node serves, and the features the cluster agreed on.

The list is that of `broker.net.served`, by which requests find their handlers; it is another one on
a controller's listener than on a broker's. Two rules come with it: a version we do
not know is answered in v0 with error 35 and the range of this API (KIP-511), and in v3 a feature
whose lowest level is 0 is left out, because clients of that version refuse it (KIP-1022).
"""

from __future__ import annotations

import re

from fencepost.broker.cluster.metadata_cache import MetadataCache
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

SOFTWARE_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


@handles(ApiVersionsRequest, listeners=(BROKER, CONTROLLER))
def handle(
    context: PendingRequest, request: ApiVersionsRequest, *, metadata: MetadataCache
) -> ApiVersionsResponse:
    """Answer with ranges and features; 42 for a malformed client name or version (v3+)."""
    if context.api_version >= 3 and not (
        SOFTWARE_NAME.fullmatch(request.client_software_name)
        and SOFTWARE_NAME.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=int(ErrorCode.INVALID_REQUEST))
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
