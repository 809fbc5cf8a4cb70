"""Names, labels and kinds of what Kafka has are Kafka's (`kafka_names.txt` says where from)."""

from pathlib import Path

from fencepost.broker.metrics.catalogue import CATALOGUE, Kind

from ...in_turn import in_turn

KAFKAS = Path(__file__).parent / "kafka_names.txt"
# Kafka's agent says of this one that it is untyped.
UNTYPED = "kafka_server_raftmetrics_current_state"


def kafkas_series():
    """(name, labels) -> type, as Apache Kafka tells them."""
    rows = (line.split() for line in KAFKAS.read_text().splitlines() if not line.startswith("#"))
    return {
        (name, () if labels == "-" else tuple(labels.split(","))): kind
        for name, labels, kind in filter(None, rows)
    }


def series_of(definition):
    """What Kafka would have to tell for this metric: (name, labels) -> type."""
    labels = tuple(sorted(definition.labels))
    if definition.kind is Kind.SUMMARY:
        with_quantile = tuple(sorted((*labels, "quantile")))
        return {
            (definition.name, with_quantile): "gauge",
            (f"{definition.name}_count_total", labels): "counter",
        }
    found = {(definition.name, labels): definition.kind.value}
    if definition.has_total:
        found[definition.name, ()] = definition.kind.value
    return found


@in_turn("name", [name for name in CATALOGUE if name.startswith("kafka_")])
def test_a_metric_of_kafkas_is_as_kafka_tells_it(name):
    kafkas = kafkas_series()
    for key, kind in series_of(CATALOGUE[name]).items():
        if "failed" in name and key[1] == ("topic",):
            key = (name, ())  # by topic only once one has failed, which none did
        assert kafkas.get(key) == ("unknown" if name == UNTYPED else kind), key


def test_what_is_not_kafkas_says_whose_it_is():
    others = [name for name in CATALOGUE if not name.startswith("kafka_")]
    assert all(name.startswith("fencepost_") for name in others)
    assert not {f"kafka_{name.partition('_')[2]}" for name in others} & {
        name for name, _ in kafkas_series()
    }


def test_every_metric_says_what_it_is():
    for name, definition in CATALOGUE.items():
        assert definition.doc.endswith("."), name
        assert name.endswith("_total") == (definition.kind is Kind.COUNTER), name
