"""The version of a request: the newest of both ends, or an error that names both ranges."""

from __future__ import annotations

import pytest

from fencepost.client.errors import UnsupportedApi
from fencepost.client.protocol.versions import VersionRange, check_version, choose_version
from fencepost.wire.api import MetadataRequest

METADATA = 3
OURS = VersionRange(MetadataRequest.min_version, MetadataRequest.max_version)


@pytest.mark.parametrize(
    ("served", "limits", "chosen"),
    [
        ((0, 9), {}, 9),
        ((1, 99), {}, OURS.high),
        ((0, 9), {"highest": 7}, 7),
        ((0, 9), {"lowest": 9}, 9),
        ((4, 4), {}, 4),
    ],
)
def test_the_newest_version_of_both_is_chosen(
    served: tuple[int, int], limits: dict[str, int], chosen: int
):
    versions = {METADATA: VersionRange(*served)}
    assert choose_version(MetadataRequest, versions, **limits) == chosen


@pytest.mark.parametrize(
    ("served", "limits"),
    [((0, 3), {"lowest": 4}), ((8, 9), {"highest": 7}), ((90, 99), {}), ((-3, -1), {})],
)
def test_without_a_common_version_both_ranges_are_named(
    served: tuple[int, int], limits: dict[str, int]
):
    versions = {METADATA: VersionRange(*served)}
    ranges = rf"kafka:9092: Metadata: .* {served[0]} to {served[1]}, needed is one of"
    with pytest.raises(UnsupportedApi, match=ranges):
        choose_version(MetadataRequest, versions, **limits, host="kafka:9092")


def test_an_api_that_is_not_served_is_named():
    with pytest.raises(UnsupportedApi, match="no Metadata API"):
        choose_version(MetadataRequest, {})
    with pytest.raises(UnsupportedApi, match="no Metadata API"):
        check_version(MetadataRequest, {}, 5)


def test_a_version_is_checked_against_what_is_served():
    versions = {METADATA: VersionRange(1, 5)}
    for version in range(1, 6):
        check_version(MetadataRequest, versions, version)
    for version in (0, 6):
        with pytest.raises(UnsupportedApi, match=f"1 to 5, not {version}"):
            check_version(MetadataRequest, versions, version)
