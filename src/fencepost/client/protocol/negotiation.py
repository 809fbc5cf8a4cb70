"""Which versions a broker serves, asked by ApiVersions (KIP-511).

The newest version of ApiVersions that we want is tried first. A broker that does not know it
answers UNSUPPORTED_VERSION in the layout of version 0 and, if new enough, names its range: then the
newest of that is asked, else version 0. A broker (or a stand-in for one) that breaks the connection
off instead has to be called again, with `first_version=0`.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

from fencepost import __version__
from fencepost.client.errors import BrokerError
from fencepost.client.protocol.versions import FinalizedFeatures, ServedVersions, VersionRange
from fencepost.wire.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from fencepost.wire.errors import ErrorCode

API_VERSIONS_NEWEST: Final = 4
"""The newest in released brokers; asking for 5 would cost every one of them a second try."""

Negotiation = Generator[tuple[ApiVersionsRequest, int], ApiVersionsResponse, ServedVersions]


def negotiate(first_version: int = API_VERSIONS_NEWEST, *, host: str | None = None) -> Negotiation:
    """Yields ApiVersions requests, returns the versions of every API that the broker serves and the
    cluster's finalized features.

    BrokerError, naming `host`, for every error but UNSUPPORTED_VERSION, and for that of version 0.
    """
    asked = first_version
    while True:
        request = ApiVersionsRequest(
            client_software_name="fencepost", client_software_version=__version__
        )
        response = yield request, asked
        served = {
            entry.api_key: VersionRange(entry.min_version, entry.max_version)
            for entry in response.api_keys
        }
        if response.error_code == ErrorCode.NONE:
            levels = {one.name: one.max_version_level for one in response.finalized_features}
            features = FinalizedFeatures(response.finalized_features_epoch, levels)
            return ServedVersions(served, features)
        if response.error_code != ErrorCode.UNSUPPORTED_VERSION or asked == 0:
            raise BrokerError.of(response.error_code, "ApiVersions was refused", host=host)
        named = served.get(ApiVersionsRequest.api_key or 0, VersionRange(0, 0)).high
        asked = max(0, min(named, asked - 1))  # lower each time, whatever the broker names
