"""`Sheet`: the values of one scrape, and the text that Prometheus reads them from.

Collectors put values in, by the names of the catalogue; the text has each metric once, with all its
values, so it is made at the end. Both are done in pieces (`fencepost.runtime.cooperative`).

Values of partitions are many, and are put in as lines of the text: `prometheus_client` takes 4 us
for each, which is ten times as long.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from prometheus_client import generate_latest
from prometheus_client.metrics_core import Metric

from fencepost.broker.loop.distribution import Distribution, Recent
from fencepost.broker.metrics.catalogue import CATALOGUE, Kind
from fencepost.runtime.cooperative import Pieces

QUANTILES: Final = (("0.50", 0.5), ("0.75", 0.75), ("0.95", 0.95), ("0.99", 0.99), ("0.999", 0.999))
"""As the label says it, and as a share; those of Kafka's histograms."""
LINES_PER_PIECE: Final = 2_000


class Sheet:
    """See the module. `now_s` is when the scrape began, on a monotonic clock."""

    def __init__(self, now_s: float) -> None:
        self.now_s = now_s
        self._metrics: dict[str, Metric] = {}
        self._lines: dict[str, list[str]] = {}
        self._others: list[Metric] = []

    def add(self, name: str, value: float, **labels: str) -> None:
        """One value of a gauge or counter of the catalogue, under its labels."""
        definition = CATALOGUE[name]
        is_total = definition.has_total and not labels
        assert is_total or tuple(labels) == definition.labels, (name, labels)
        self._metric(name).add_sample(name, labels, value)

    def add_summary(self, name: str, *values: Distribution, **labels: str) -> None:
        """How values are distributed: quantiles of the last minutes; count and sum of all."""
        assert tuple(labels) == CATALOGUE[name].labels, (name, labels)
        metric = self._metric(name)
        recent = Recent.of(one.look(self.now_s) for one in values)
        for text, share in QUANTILES:
            value = recent.quantile(share)
            if value is not None:
                metric.add_sample(name, {**labels, "quantile": text}, value)
        metric.add_sample(f"{name}_count", labels, sum(one.count for one in values))
        metric.add_sample(f"{name}_sum", labels, sum(one.sum for one in values))

    def add_lines(self, labels: str, values: Iterable[tuple[str, int]]) -> None:
        """Integers of metrics under the same labels; see `label_text`."""
        for name, value in values:
            lines = self._lines.get(name)
            if lines is None:
                lines = self._lines[name] = []
            lines.append(f"{name}{labels} {value}\n")

    def add_metrics(self, metrics: Iterable[Metric]) -> None:
        """Metrics that are not of the catalogue: those of the process."""
        self._others += metrics

    def render(self) -> Pieces[list[bytes]]:
        """The text, in parts, made in pieces."""
        text: list[bytes] = []
        for name in CATALOGUE:
            metric, lines = self._metrics.pop(name, None), self._lines.pop(name, None)
            if metric is not None:
                text.append(generate_latest(_Only(metric)))
                yield None
            if lines is not None:
                assert metric is None, f"{name} comes both ways"
                text.append(_heading(name))
                for start in range(0, len(lines), LINES_PER_PIECE):
                    text.append("".join(lines[start : start + LINES_PER_PIECE]).encode())
                    yield None
        for metric in self._others:
            text.append(generate_latest(_Only(metric)))
            yield None
        return text

    def _metric(self, name: str) -> Metric:
        metric = self._metrics.get(name)
        if metric is None:
            definition = CATALOGUE[name]
            base = name.removesuffix("_total") if definition.kind is Kind.COUNTER else name
            metric = Metric(base, definition.doc, definition.kind.value)
            self._metrics[name] = metric
        return metric


class _Only:
    """A registry of one metric, to `generate_latest`."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterable[Metric]:
        return (self._metric,)


def label_text(labels: Mapping[str, str]) -> str:
    """Labels as a line of the text has them."""
    inside = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{inside}}}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _heading(name: str) -> bytes:
    definition = CATALOGUE[name]
    return f"# HELP {name} {definition.doc}\n# TYPE {name} {definition.kind.value}\n".encode()
