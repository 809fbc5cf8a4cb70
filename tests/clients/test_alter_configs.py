"""AlterConfigs by the clients that still speak it: what is not named goes back to its default."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource
from kafka import KafkaAdminClient
from kafka.admin import ConfigResource as PythonResource, ConfigResourceType

SECONDS = 60


def own_configs(admin: AdminClient, resource: ConfigResource) -> dict[str, str]:
    entries = admin.describe_configs([resource])[resource].result(SECONDS).values()
    return {entry.name: entry.value for entry in entries if entry.source == 1}


def test_librdkafka_replaces_and_deletes(bootstrap: str, make_topic: Callable[..., str]) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topic = make_topic(**{"retention.ms": "5000", "segment.ms": "6000"})
    wanted = {"segment.ms": "7000", "cleanup.policy": "compact"}
    named = ConfigResource(ConfigResource.Type.TOPIC, topic)

    def alter(configs: dict[str, str], **options: object) -> None:
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, set_config=configs)
        admin.alter_configs([resource], **options)[resource].result(SECONDS)

    alter(wanted, validate_only=True)
    assert own_configs(admin, named) == {"retention.ms": "5000", "segment.ms": "6000"}
    alter(wanted)
    assert own_configs(admin, named) == wanted
    with pytest.raises(KafkaException) as refusal:
        alter({"segment.ms": "soon"})
    assert refusal.value.args[0].name() == "INVALID_CONFIG"
    assert own_configs(admin, named) == wanted
    alter({})
    assert own_configs(admin, named) == {}


def test_kafka_python_replaces(bootstrap: str, make_topic: Callable[..., str]) -> None:
    """This client asks first what there is, and sends it along: it means to change one config."""
    topic = make_topic(**{"retention.ms": "5000", "segment.ms": "6000"})
    named = ConfigResource(ConfigResource.Type.TOPIC, topic)
    watcher = AdminClient({"bootstrap.servers": bootstrap})
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:

        def alter(value: str) -> str:
            resource = PythonResource(ConfigResourceType.TOPIC, topic, {"segment.ms": value})
            told: dict[str, dict[str, str]] = admin.alter_configs([resource], incremental=False)
            return told["topic"][topic]

        assert alter("7000") == "OK"
        assert own_configs(watcher, named) == {"retention.ms": "5000", "segment.ms": "7000"}
        assert "InvalidConfig" in alter("soon")
    finally:
        admin.close()
    assert own_configs(watcher, named) == {"retention.ms": "5000", "segment.ms": "7000"}
