"""Each log event and metric is declared once, and used only as declared."""

from __future__ import annotations

import re
from pathlib import Path

import hostler
from hostler.telemetry import names
from hostler.telemetry.metrics import Metrics
from hostler.telemetry.names import EVENTS, METRICS, LogEvent, Metric, MetricKind

SOURCES = [path for path in Path(hostler.__file__).parent.rglob("*.py") if path.name != "names.py"]


def declared(kind: type) -> dict[str, object]:
    return {name: value for name, value in vars(names).items() if isinstance(value, kind)}


def test_no_name_is_declared_twice():
    everything = [item.name for item in (*EVENTS, *METRICS)]
    assert len(everything) == len(set(everything))


def test_every_declaration_is_in_its_list():
    assert set(declared(LogEvent).values()) == set(EVENTS)
    assert set(declared(Metric).values()) == set(METRICS)


def test_names_follow_one_form():
    for item in (*EVENTS, *METRICS):
        assert re.fullmatch(r"[a-z]+(_[a-z0-9]+)*", item.name)
        assert item.meaning.endswith(".")
    for metric in METRICS:
        assert metric.name.endswith("_total") == (metric.kind is MetricKind.COUNTER)


def test_every_declared_name_is_used_somewhere():
    used = {word for path in SOURCES for word in re.findall(r"\w+", path.read_text())}
    assert {*declared(LogEvent), *declared(Metric)} - used == set()


def test_the_registry_holds_exactly_the_declared_metrics():
    made = Metrics()
    exposed = {family.name for family in made.registry.collect()}
    assert exposed == {metric.name.removesuffix("_total") for metric in METRICS}
