"""UpdateFeatures (key 57): change the finalized levels of features, metadata.version above all.

Sent by the administrator's client to a controller, or to a broker, which forwards it (KIP-584).
KRaft clusters do all updates or none. v1 adds the kind of change and a dry run (KIP-778). Up to v1
there is a result per feature, from v2 on only the top-level error (KIP-1022). ApiVersions tells the
levels in force.

The request needs ALTER on the cluster.
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Bool, Int8, Int16, Int32, String


class FeatureUpdateKey(Struct):
    """The change of one feature."""

    feature: String = field(
        doc="Name of the feature, such as `metadata.version`; once in a request.",
    )
    max_version_level: Int16 = field(
        doc=(
            "Level it is to have. 0 turns the feature off, which `metadata.version` cannot be; "
            "less is error 95, and so is what some node of the cluster cannot run."
        ),
    )
    allow_downgrade: Bool = field(
        "0",
        doc="v0 only: whether the level may be lowered; true is `upgrade_type` 2, false is 1.",
    )
    upgrade_type: Int8 = field(
        "1+",
        default=1,
        doc=(
            "1 may only raise the level, 2 lower it where nothing gets lost, 3 lower it even if "
            "metadata gets lost. Error 95 when it is another change than that."
        ),
    )


class UpdateFeaturesRequest(
    Request["UpdateFeaturesResponse"], api_key=57, versions="0-2", flexible="0+"
):
    """Asks the controller to change levels of features."""

    timeout_ms: Int32 = field(
        name="timeoutMs",
        default=60_000,
        doc="Milliseconds after which the controller may give up.",
    )
    feature_updates: list[FeatureUpdateKey] = field(doc="One entry per feature to change.")
    validate_only: Bool = field(
        "1+",
        default=False,
        doc="Whether only to check what would be done; v0 cannot ask for that.",
    )


class UpdatableFeatureResult(Struct):
    """What became of one feature, up to v1."""

    feature: String = field(doc="Name of the feature.")
    error_code: Int16 = field(doc="0, or why its level was not changed.")
    error_message: String | None = field(
        doc="What went wrong in words, or null when `error_code` says enough.",
    )


class UpdateFeaturesResponse(Message, api_key=57, kind="response", versions="0-2", flexible="0+"):
    """Whether the levels are changed."""

    throttle_time_ms: Int32 = field(
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    error_code: Int16 = field(
        doc=(
            "0, or why nothing was changed: 31, 41 not the active controller, 42, 95 a level "
            "that cannot be set, 96 (ZooKeeper) it could not be stored."
        ),
    )
    error_message: String | None = field(
        doc="What went wrong in words, or null when `error_code` says enough.",
    )
    results: list[UpdatableFeatureResult] = field(
        "0-1",
        ignorable=True,
        doc="One entry per feature of the request; empty when the whole request failed, and in v2.",
    )
