"""ApiVersions in a version we do not know: the one such request that is answered (KIP-511)."""

from __future__ import annotations

from fencepost.broker.net.registry import Route
from fencepost.wire.api.api_versions import ApiVersion, ApiVersionsResponse
from fencepost.wire.errors import ErrorCode


def unsupported_version_response(route: Route) -> ApiVersionsResponse:
    """The v0 answer to a version we do not know: error 35, and the range that we do."""
    return ApiVersionsResponse(
        error_code=int(ErrorCode.UNSUPPORTED_VERSION),
        api_keys=[
            ApiVersion(
                api_key=route.api_key,
                min_version=route.min_version,
                max_version=route.max_version,
            )
        ],
    )
