"""The Prometheus registry, filled from the declared names."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from hostler.forks import reset_after_fork
from hostler.telemetry.names import METRICS, Metric, MetricKind

_MAKERS = {
    MetricKind.COUNTER: Counter,
    MetricKind.GAUGE: Gauge,
    MetricKind.HISTOGRAM: Histogram,
}


class Metrics:
    """The metrics of one process. Undeclared names raise an error."""

    def __init__(self) -> None:
        self.after_fork()
        reset_after_fork(self)

    def after_fork(self) -> None:
        """Start with an empty registry and free locks in a forked child."""
        self.registry = CollectorRegistry()
        self._made: dict[str, Counter | Gauge | Histogram] = {
            metric.name: _MAKERS[metric.kind](
                metric.name, metric.meaning, metric.labels, registry=self.registry
            )
            for metric in METRICS
        }

    def count(self, metric: Metric, amount: float = 1, **labels: str) -> None:
        """Add to a counter."""
        made = self._labelled(metric, labels)
        assert isinstance(made, Counter)
        made.inc(amount)

    def set(self, metric: Metric, value: float, **labels: str) -> None:
        """Set a gauge."""
        made = self._labelled(metric, labels)
        assert isinstance(made, Gauge)
        made.set(value)

    def observe(self, metric: Metric, value: float, **labels: str) -> None:
        """Add a measurement to a histogram."""
        made = self._labelled(metric, labels)
        assert isinstance(made, Histogram)
        made.observe(value)

    def text(self) -> str:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry).decode()

    def value(self, metric: Metric, **labels: str) -> float:
        """Return the value of a counter or gauge; 0 if it was never set."""
        return self.registry.get_sample_value(metric.name, labels) or 0.0

    def _labelled(self, metric: Metric, labels: dict[str, str]) -> Counter | Gauge | Histogram:
        made: Counter | Gauge | Histogram = self._made[metric.name]
        return made.labels(**labels) if metric.labels else made


metrics = Metrics()
