"""GetTelemetrySubscriptions (key 71): which of its metrics a client is to send (KIP-714).

Sent by clients to any broker of their choice, before the first PushTelemetry and again whenever
that says the subscription is another by now. The administrator sets subscriptions as configs of
the resource type CLIENT_METRICS. Brokers offer the API when a plugin there takes the metrics.
No permission is needed.
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, field
from fencepost.wire.types import Bool, Int8, Int16, Int32, String, Uuid


class GetTelemetrySubscriptionsRequest(
    Request["GetTelemetrySubscriptionsResponse"], api_key=71, versions="0", flexible="0+"
):
    """Asks a broker what to send."""

    client_instance_id: Uuid = field(
        doc="Id of this client, from the first answer on; zero asks for one.",
    )


class GetTelemetrySubscriptionsResponse(
    Message, api_key=71, kind="response", versions="0", flexible="0+"
):
    """What to send, how often and how."""

    throttle_time_ms: Int32 = field(
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    error_code: Int16 = field(
        doc="0; 42, 89 asked again before the push interval was over.",
    )
    client_instance_id: Uuid = field(
        doc=(
            "Id the client is to use while it lives, with all brokers: a new one when it sent "
            "zero, else take the one it sent, whether this repeats it or is zero."
        ),
    )
    subscription_id: Int32 = field(
        doc="Stands for this set of metrics and this interval; to be sent with what is pushed.",
    )
    accepted_compression_types: list[Int8] = field(
        doc=(
            "Compression the broker can undo, best first: 1 gzip, 2 snappy, 3 lz4, 4 zstd. 0, "
            "none, is always accepted; empty for nothing else."
        ),
    )
    push_interval_ms: Int32 = field(
        doc=(
            "Milliseconds between pushes: the least of the subscriptions that match. A client "
            "that is asked for no metrics waits as long before it asks again."
        ),
    )
    telemetry_max_bytes: Int32 = field(
        doc="Most bytes of `metrics` the broker takes in one push.",
    )
    delta_temporality: Bool = field(
        doc="Whether counters are sent as the change since the last push, not as running sums.",
    )
    requested_metrics: list[String] = field(
        doc=(
            "Prefixes of the metrics to send; empty for no metrics. All are asked for by a "
            "single `*`, or by a single empty prefix."
        ),
    )
