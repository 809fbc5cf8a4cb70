"""PushTelemetry (key 72): a client's metrics (KIP-714).

Sent by clients to the broker that gave them a subscription (GetTelemetrySubscriptions), at its
interval, and once more at the end. The broker hands them to a plugin. No permission is needed.
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, field
from fencepost.wire.types import Bool, Bytes, Int8, Int16, Int32, Uuid


class PushTelemetryRequest(
    Request["PushTelemetryResponse"], api_key=72, versions="0", flexible="0+"
):
    """Metrics of one client."""

    client_instance_id: Uuid = field(
        doc="Id of the client, as GetTelemetrySubscriptions gave it; zero is error 42.",
    )
    subscription_id: Int32 = field(
        doc="The subscription that is answered; error 117 when another one is in force by now.",
    )
    terminating: Bool = field(
        doc=(
            "Whether the client is about to end: this push may come before its time, and none "
            "may follow."
        ),
    )
    compression_type: Int8 = field(
        doc="How `metrics` are compressed: 0 not, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
    )
    metrics: Bytes = field(
        doc=(
            "OpenTelemetry's MetricsData (protobuf, v1), compressed; empty when there is nothing "
            "to say."
        ),
    )


class PushTelemetryResponse(Message, api_key=72, kind="response", versions="0", flexible="0+"):
    """Whether the metrics were taken."""

    throttle_time_ms: Int32 = field(
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    error_code: Int16 = field(
        doc=(
            "0; 117 or 76: ask for the subscription again, 118 too large: send less, 89 before "
            "its time, 42, 87 the plugin could not take them."
        ),
    )
