"""Source and sink against a cluster that asks for a login: the options of Kafka's clients travel to
the tasks, and no password is in what fails."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("cryptography")

from fencepost.client.admin import Admin
from fencepost.testing import Cluster, ClusterSecurity

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

PASSWORD = "hush-hush-of-app"


@pytest.fixture(scope="module", params=["SASL_SSL", "SSL"])
def secured(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A broker that asks for a password, or for a certificate."""
    security = ClusterSecurity(request.param, users={"app": PASSWORD})
    with Cluster(security=security) as cluster:
        with cluster.security.client() as client:
            for name in ("from", "to"):
                Admin(client).create_topic(name, 2)
                Admin(client).wait_for_topic(name)
        yield cluster


@pytest.fixture
def options(secured: Cluster) -> dict[str, str]:
    """What source and sink take; short limits for what is refused."""
    given = secured.security.login("app").spark_options()
    return {**given, "kafka.default.api.timeout.ms": "5000"}


def test_records_are_written_read_and_streamed(spark: Any, options: dict[str, str], tmp_path: Path):
    rows = [(b"%d" % number,) for number in range(20)]
    written = spark.createDataFrame(rows, "value binary")
    written.write.format("fencepost").options(**options, topic="from").mode("append").save()
    reading = spark.read.format("fencepost").options(**options, subscribe="from")
    assert sorted(int(row.value) for row in reading.load().collect()) == list(range(20))
    stream = spark.readStream.format("fencepost").options(
        **options, subscribe="from", startingOffsets="earliest"
    )
    query = (
        stream.load()
        .select("value")
        .writeStream.format("fencepost")
        .options(**options, topic="to", checkpointLocation=str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert query.exception() is None
    moved = spark.read.format("fencepost").options(**options, subscribe="to").load()
    assert sorted(int(row.value) for row in moved.collect()) == list(range(20))


def test_a_refusal_says_why_and_no_password(spark: Any, secured: Cluster, options: dict[str, str]):
    guest = {
        **secured.security.login("guest").spark_options(),
        "kafka.default.api.timeout.ms": "5000",
    }
    reading = spark.read.format("fencepost").options(**guest, subscribe="from")
    with pytest.raises(Exception, match="TOPIC_AUTHORIZATION_FAILED"):
        reading.load().collect()
    stranger = {**secured.security.stranger().spark_options()}
    stranger |= {"kafka.default.api.timeout.ms": "2000"}
    with pytest.raises(Exception) as failed:
        spark.read.format("fencepost").options(**stranger, subscribe="from").load().collect()
    text = str(failed.value)
    assert "SASL_AUTHENTICATION_FAILED" in text or "TLS" in text or "can be reached" in text
    assert PASSWORD not in text and "none of them" not in text
