"""Our tables of client properties against the classes of Kafka's own clients."""

from __future__ import annotations

import pytest

from fencepost.client.config import KNOWN, ClientConfig
from fencepost.client.errors import ConfigError
from fencepost.client.java_properties import JAVA_ONLY
from fencepost.spark.options import REJECTED_FOR_SINKS, REJECTED_FOR_SOURCES, WITHOUT_A_GROUP

from .maven import JarSet
from .oracle import PROGRAMS, ask

pytestmark = [pytest.mark.interop, pytest.mark.slow]

OURS = {
    "sasl.username", "sasl.password",
    "ssl.ca.location", "ssl.certificate.location", "ssl.key.location",
}  # fmt: skip
"""Names that librdkafka gives to what Java clients take from JAAS lines and stores."""


@pytest.fixture(scope="module")
def of_kafka(kafka_jars: JarSet) -> dict[str, str]:
    """Property to type, by reflection."""
    said = ask(PROGRAMS / "ClientConfigOracle.java", jars=kafka_jars)
    return dict(line.split("\t") for line in said.splitlines())


def test_every_property_of_kafkas_clients_is_accepted_and_no_other(of_kafka: dict[str, str]):
    assert len(of_kafka) > 120
    assert set(KNOWN) | set(JAVA_ONLY) == set(of_kafka) | OURS


def test_types_are_kafkas(of_kafka: dict[str, str]):
    assert {key: kind for key, (kind, _) in JAVA_ONLY.items()} == {
        key: of_kafka[key].lower() for key in JAVA_ONLY
    }
    for key in set(KNOWN) - OURS:
        if of_kafka[key] in ("INT", "LONG", "SHORT", "DOUBLE", "BOOLEAN"):
            with pytest.raises(ConfigError):
                ClientConfig.from_props({key: "surely neither"})


def test_what_the_options_treat_by_name_are_names_of_kafka(of_kafka: dict[str, str]):
    assert {*REJECTED_FOR_SOURCES, *REJECTED_FOR_SINKS, *WITHOUT_A_GROUP} <= set(of_kafka)
