"""Finalized features: at which levels the cluster runs (KIP-584, KIP-778, KIP-1022).

A level is finalized if every node can run it: this controller, every registered broker, every
registered controller; and every voter has registered, because one that is not known may not. All
changes of a request happen or none.

| the level asked for          | upgrade  | safe downgrade | unsafe downgrade |
|------------------------------|----------|----------------|------------------|
| below 0                      | refused  | refused        | refused          |
| some node cannot run it      | refused  | refused        | refused          |
| lower than now               | refused  | done *         | done *           |
| as now                       | done     | done           | done             |
| higher than now              | done     | refused        | refused          |

\\* `metadata.version` only down to where no record format lies in between, whatever is asked for:
fields cannot be taken out of written records again. `kraft.version` never falls; it is not in the
metadata records at all, the quorum keeps it, so its change is only checked here.

Every refusal is INVALID_UPDATE_VERSION, but for a feature named twice (INVALID_REQUEST).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from msgspec import Struct

from fencepost.machines.controller.config import METADATA_VERSION_FEATURE, ControllerConfig
from fencepost.machines.controller.decision import Refused
from fencepost.machines.controller.min_isr import records_before_elr
from fencepost.machines.controller.partition_change import ELR_FEATURE, ELR_SINCE
from fencepost.machines.image import ClusterImage, FeatureRange
from fencepost.wire.api.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message
from fencepost.wire.records.metadata import FeatureLevelRecord

KRAFT_VERSION_FEATURE: Final = "kraft.version"

UPGRADE: Final = 1
SAFE_DOWNGRADE: Final = 2
UNSAFE_DOWNGRADE: Final = 3

LAST_VERSION_WITH_RESULTS: Final = 1
"""Of UpdateFeatures: later ones have the error at the top only."""
FIRST_VERSION_WITH_TYPES: Final = 1
"""Of UpdateFeatures: before it, a flag said whether a downgrade is allowed."""

METADATA_FORMATS: Final = (8, 11, 13, 14, 15, 17, 23, 30, 32, 33)
"""Levels of `metadata.version` with records, or fields of them, that the level before does not
have: 3.4-IV0, 3.5-IV2, 3.6-IV1, 3.6-IV2, 3.7-IV0, 3.7-IV2, 4.0-IV1, 4.3-IV0, 4.4-IV1,
4.4-IV2."""
CONTROLLER_REGISTRATION_LEVEL: Final = 15
"""The `metadata.version` from which on controllers register: 3.7-IV0."""
CONTROLLER_UNREGISTRATION_LEVEL: Final = 33
"""The `metadata.version` from which on controllers can be unregistered: 4.4-IV2 (KIP-1312)."""
TRANSACTIONS_LEVEL: Final = 13
"""The `metadata.version` from which on there are metadata transactions: 3.6-IV1."""


class FeatureChange(Struct, frozen=True):
    """What a request comes to: records to write, and the level of `kraft.version` if it asks."""

    records: list[Message]
    kraft_version: int | None


class FeatureUpdater:
    """Decides over one UpdateFeatures request at `api_version`."""

    def __init__(
        self,
        image: ClusterImage,
        config: ControllerConfig,
        voter_ids: Iterable[int],
        kraft_version: int,
        api_version: int,
    ) -> None:
        self._image = image
        self._config = config
        self._voter_ids = tuple(voter_ids)
        self._kraft_version = kraft_version
        self._api_version = api_version

    def decide(self, request: UpdateFeaturesRequest) -> FeatureChange:
        """All changes of the request. Raises Refused for the first that cannot be."""
        names = [update.feature for update in request.feature_updates]
        for name in names:
            if names.count(name) > 1:
                raise Refused(ErrorCode.INVALID_REQUEST, f"Feature {name} appears more than once.")
        levels: list[FeatureLevelRecord] = []
        kraft_version: int | None = None
        for update in request.feature_updates:
            self._check(update)
            if update.feature == KRAFT_VERSION_FEATURE:
                kraft_version = update.max_version_level
            else:
                levels.append(
                    FeatureLevelRecord(name=update.feature, feature_level=update.max_version_level)
                )
        levels.sort(key=lambda record: record.name != METADATA_VERSION_FEATURE)
        asked = {record.name: record.feature_level for record in levels}
        self._check_elr(asked)
        records: list[Message] = [*levels]
        if asked.get(ELR_FEATURE, 0) > 0:
            records = [*records_before_elr(self._image, self._config), *levels]
        return FeatureChange(records, kraft_version)

    def _check_elr(self, asked: Mapping[str, int]) -> None:
        """Eligible leader replicas need a `metadata.version` that can say who they are."""
        level = asked.get(ELR_FEATURE, self._image.features.get(ELR_FEATURE, 0))
        version = asked.get(METADATA_VERSION_FEATURE, self._image.metadata_version)
        if level > 0 and version < ELR_SINCE:
            raise _refused(
                ELR_FEATURE,
                level,
                f"It requires a {METADATA_VERSION_FEATURE} of at least {ELR_SINCE}.",
            )

    def _check(self, update: FeatureUpdateKey) -> None:
        name, level = update.feature, update.max_version_level
        kind = self._type_of(update)
        if kind not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
            raise _refused(name, level, "The controller does not support the given upgrade type.")
        if level < 0:
            raise _refused(name, level, "A feature version cannot be less than 0.")
        reason = next(self._reasons_against(name, level), None)
        if reason is not None:
            raise _refused(name, level, reason)
        now = self._level_of(name)
        if level < now and kind == UPGRADE:
            raise _refused(
                name,
                level,
                "Can't downgrade the version of this feature without setting the upgrade type to"
                " either safe or unsafe downgrade.",
            )
        if level > now and kind != UPGRADE:
            raise _refused(name, level, "Can't downgrade to a newer version.")
        if level < now and name == METADATA_VERSION_FEATURE:
            _check_metadata_downgrade(level, now, kind)
        if level < now and name == KRAFT_VERSION_FEATURE:
            raise _refused(name, level, "Can't downgrade the version of this feature.")

    def _type_of(self, update: FeatureUpdateKey) -> int:
        if self._api_version >= FIRST_VERSION_WITH_TYPES:
            return update.upgrade_type
        return SAFE_DOWNGRADE if update.allow_downgrade else UPGRADE

    def _level_of(self, name: str) -> int:
        if name == KRAFT_VERSION_FEATURE:
            return self._kraft_version
        return self._image.features.get(name, 0)

    def _reasons_against(self, name: str, level: int) -> Iterator[str]:
        """Why some node could not run the level."""
        low, high = self._config.supported_features.get(name, (0, 0))
        if name not in self._config.supported_features:
            yield f"Local controller {self._config.node_id} does not support this feature."
        elif not _runs(level, low, high, name):
            yield f"Local controller {self._config.node_id} only supports versions {low}-{high}"
        for broker_id in sorted(self._image.brokers):
            features = self._image.brokers[broker_id].features
            yield from _reason(f"Broker {broker_id}", features, name, level)
        if self._image.features.get(METADATA_VERSION_FEATURE, 0) < CONTROLLER_REGISTRATION_LEVEL:
            return  # controllers cannot have registered
        own_id = self._config.node_id
        for controller_id in sorted(self._image.controllers):
            if controller_id != own_id:
                features = self._image.controllers[controller_id].features
                yield from _reason(f"Controller {controller_id}", features, name, level)
        for voter_id in self._voter_ids:
            if voter_id != own_id and voter_id not in self._image.controllers:
                yield f"controller {voter_id} has not registered, and may not support this feature"


def _reason(who: str, features: Iterable[FeatureRange], name: str, level: int) -> Iterator[str]:
    ranges: Mapping[str, tuple[int, int]] = {f.name: (f.min_level, f.max_level) for f in features}
    low, high = ranges.get(name, (0, 0))
    if _runs(level, low, high, name):
        return
    if name in ranges:
        yield f"{who} only supports versions {low}-{high}"
    else:
        yield f"{who} does not support this feature."


def _runs(level: int, low: int, high: int, name: str) -> bool:
    """Level 0 is the feature switched off, which every node can run; metadata.version has none."""
    if level == 0 and name != METADATA_VERSION_FEATURE:
        return True
    return low <= level <= high


def _refused(name: str, level: int, why: str) -> Refused:
    return Refused(
        ErrorCode.INVALID_UPDATE_VERSION,
        f"Invalid update version {level} for feature {name}. {why}",
    )


def _check_metadata_downgrade(level: int, now: int, kind: int) -> None:
    """Refuse a level before the last record format that the level in force has added."""
    if not any(level < one <= now for one in METADATA_FORMATS):
        return
    why = (
        "Unsafe metadata downgrade is not supported in this version."
        if kind == UNSAFE_DOWNGRADE
        else "Refusing to perform the requested downgrade because it might delete metadata"
        " information."
    )
    raise Refused(
        ErrorCode.INVALID_UPDATE_VERSION,
        f"Unsupported metadata.version downgrade from {now} to {level}. {why}",
    )


def updated(request: UpdateFeaturesRequest, api_version: int) -> UpdateFeaturesResponse:
    """The answer when everything was done; up to v1 it says so of every feature."""
    response = UpdateFeaturesResponse(error_message=None)
    if api_version <= LAST_VERSION_WITH_RESULTS:
        response.results = [
            UpdatableFeatureResult(feature=update.feature, error_message=None)
            for update in request.feature_updates
        ]
    return response


def not_updated(refused: Refused) -> UpdateFeaturesResponse:
    """The answer when nothing was done: one error for the whole request."""
    return UpdateFeaturesResponse(
        error_code=refused.error,
        error_message="The update failed for all features since the following feature had an error:"
        f" {refused.message}",
    )
