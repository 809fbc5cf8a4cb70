"""Text that Prometheus' own parser reads as what was put in, whatever names there are."""

import pytest

from fencepost.broker.metrics.sheet import Sheet, label_text

from .scraping import Scrape

NAMES = ["t", 'quo"te', "back\\slash", "line\nfeed", "\\n", "{},=", "\u00fc\u2028", ""]


def rendered(sheet):
    pieces = sheet.render()
    while True:
        try:
            next(pieces)
        except StopIteration as end:
            return Scrape(b"".join(end.value).decode())


@pytest.mark.parametrize("topic", NAMES)
def test_labels_are_escaped(topic):
    sheet = Sheet(0.0)
    sheet.add_lines(label_text({"topic": topic, "partition": "0"}), [("kafka_log_log_size", 7)])
    sheet.add("kafka_server_brokertopicmetrics_bytesin_total", 5, topic=topic)
    found = rendered(sheet)
    assert found.value("kafka_log_log_size", topic=topic, partition="0") == 7
    assert found.value("kafka_server_brokertopicmetrics_bytesin_total", topic=topic) == 5


def test_each_metric_is_there_once_whoever_put_it_in():
    sheet = Sheet(0.0)
    for index in range(5_000):
        labels = label_text({"topic": "t", "partition": str(index)})
        sheet.add_lines(labels, [("kafka_log_log_size", index), ("kafka_log_log_logendoffset", 1)])
    found = rendered(sheet)
    assert len(found.find("kafka_log_log_size")) == len(found.find("kafka_log_log_logendoffset"))
    assert sum(found.find("kafka_log_log_size").values()) == sum(range(5_000))


def test_a_name_that_is_not_in_the_catalogue_and_a_wrong_label_are_mistakes():
    with pytest.raises(KeyError):
        Sheet(0.0).add("kafka_server_nothing", 1)
    with pytest.raises(AssertionError):
        Sheet(0.0).add("kafka_log_logmanager_logdirectoryoffline", 1)
