"""Which version of an API to speak to a broker: the highest that both ends know.

Pure arithmetic over the ranges a broker sent in ApiVersions; `negotiation` asks for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct, field

from fencepost.client.errors import UnsupportedApi
from fencepost.wire.api import api_name
from fencepost.wire.message import Message


class VersionRange(NamedTuple):
    """Versions from `low` to `high`, both included."""

    low: int
    high: int


class KeyedApi(NamedTuple):
    """An API that has no key of its own: at which key it is served, and the version to speak."""

    api_key: int
    version: int
    response_class: type[Message]

    def check(self, broker: Mapping[int, VersionRange]) -> int:
        """The version, if the broker serves it. UnsupportedApi if not."""
        offered = broker.get(self.api_key)
        if offered is None or not offered.low <= self.version <= offered.high:
            name = self.response_class.__name__.removesuffix("Response")
            what = f"{name} version {self.version} at key {self.api_key}"
            raise UnsupportedApi(f"the broker does not serve {what}")
        return self.version


class FinalizedFeatures(Struct):
    """The levels at which a cluster runs its features, as of a version of its metadata (`epoch`; -1
    while none is known)."""

    epoch: int = -1
    levels: dict[str, int] = field(default_factory=dict)

    def level(self, feature: str) -> int:
        """Level of a feature; 0 when it is off."""
        return self.levels.get(feature, 0)

    def update(self, other: FinalizedFeatures) -> None:
        """Take in what another broker says, unless it is older."""
        if other.epoch >= self.epoch:
            self.epoch, self.levels = other.epoch, other.levels


class ServedVersions(dict[int, VersionRange]):
    """By API key, the versions that a broker serves; and the features as it knows them."""

    features: FinalizedFeatures

    def __init__(
        self, served: Mapping[int, VersionRange] = {}, features: FinalizedFeatures | None = None
    ) -> None:
        super().__init__(served)
        self.features = features or FinalizedFeatures()


def choose_version(
    request_class: type[Message],
    broker: Mapping[int, VersionRange],
    *,
    lowest: int | None = None,
    highest: int | None = None,
    host: str | None = None,
) -> int:
    """The highest version of `request_class` that the broker has too, within `lowest..highest`.

    Raises UnsupportedApi naming both ranges when there is none.
    """
    api_key = request_class.api_key
    if api_key is None:
        raise UnsupportedApi(f"{request_class.__name__} is no request", host=host)
    low = max(request_class.min_version, lowest if lowest is not None else 0)
    high = request_class.max_version
    if highest is not None:
        high = min(high, highest)
    offered = broker.get(api_key)
    if offered is None:
        raise UnsupportedApi(f"the broker has no {api_name(api_key)} API", host=host)
    chosen = min(high, offered.high)
    if chosen < max(low, offered.low):
        raise UnsupportedApi(
            f"{api_name(api_key)}: the broker speaks versions {offered.low} to {offered.high}, "
            f"needed is one of {low} to {high}",
            host=host,
        )
    return chosen


def check_version(
    request_class: type[Message],
    broker: Mapping[int, VersionRange],
    version: int,
    *,
    host: str | None = None,
) -> None:
    """Raises UnsupportedApi, naming the broker's range, unless it has `version`."""
    api_key = request_class.api_key
    offered = broker.get(api_key) if api_key is not None else None
    if offered is None or api_key is None:
        choose_version(request_class, broker, host=host)  # says what is wrong
    elif not offered.low <= version <= offered.high:
        raise UnsupportedApi(
            f"{api_name(api_key)}: the broker speaks versions {offered.low} to {offered.high}, "
            f"not {version}",
            host=host,
        )
