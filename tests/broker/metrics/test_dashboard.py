"""The Grafana dashboard asks for nothing that a node does not tell."""

import json
import re
from pathlib import Path

import pytest

from fencepost.broker.metrics.catalogue import CATALOGUE, Kind

DASHBOARD = Path(__file__).parents[3] / "examples" / "grafana" / "fencepost.json"
NAME = re.compile(r"\b(?:kafka|fencepost|process|python)_[a-z0-9_]+\b")
SELECTOR = re.compile(r"\b([a-z][a-z0-9_]+)\{([^}]*)\}")
GROUPING = re.compile(r"\bby \(([^)]*)\)")
OF_THE_PROCESS = {
    "process_cpu_seconds_total",
    "process_max_fds",
    "process_open_fds",
    "process_resident_memory_bytes",
}
"""What `prometheus_client` tells; `test_values` sees one of them."""
OF_PROMETHEUS = {"instance", "job"}


def labels_by_name():
    """The labels of everything that can be queried."""
    found = {name: set() for name in OF_THE_PROCESS}
    for name, definition in CATALOGUE.items():
        found[name] = set(definition.labels)
        if definition.kind is Kind.SUMMARY:
            found[name] = {*definition.labels, "quantile"}
            found[f"{name}_count"] = found[f"{name}_sum"] = set(definition.labels)
    return found


@pytest.fixture(scope="module")
def dashboard():
    return json.loads(DASHBOARD.read_text())


def expressions(dashboard):
    """Every query, with the title of its panel and its legend."""
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"], target["legendFormat"]


def test_every_metric_and_label_that_it_asks_for_exists(dashboard):
    known = labels_by_name()
    asked = set()
    for title, expression, legend in expressions(dashboard):
        names = set(NAME.findall(expression))
        assert names, title
        assert names <= known.keys(), (title, names - known.keys())
        asked |= names
        labels = set.union(*(known[name] for name in names)) | OF_PROMETHEUS
        for name, selector in SELECTOR.findall(expression):
            for label in re.findall(r'(\w+)(?:=|!=|=~|!~)"', selector):
                assert label in known[name] | OF_PROMETHEUS, (title, name, label)
        for group in GROUPING.findall(expression):
            assert set(group.replace(" ", "").split(",")) <= labels, (title, group)
        assert set(re.findall(r"\{\{(\w+)\}\}", legend)) <= labels, (title, legend)
    assert len(asked) > 40


def test_variables_are_defined_and_ask_for_what_there_is(dashboard):
    variables = {one["name"]: one for one in dashboard["templating"]["list"]}
    text = json.dumps(dashboard["panels"])
    used = set(re.findall(r"\$\{?([a-z]\w*)", text))
    assert used == variables.keys()
    for one in variables.values():
        for name in NAME.findall(str(one.get("definition", ""))):
            assert name in CATALOGUE


def test_counters_are_asked_for_by_rate(dashboard):
    for title, expression, _ in expressions(dashboard):
        for name in NAME.findall(expression):
            if name.endswith("_total"):
                assert f"rate({name}" in expression, (title, name)


def test_panels_have_their_own_numbers_and_places(dashboard):
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken = set()
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
