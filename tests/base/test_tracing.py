from __future__ import annotations

import sys

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from hostler.errors import MissingExtra
from hostler.telemetry.tracing import span, start_tracing, stop_tracing


def test_spans_reach_the_exporter_nested_and_with_attributes():
    exporter = InMemorySpanExporter()
    start_tracing(exporter)
    with span("outer", repo="octo/hello"), span("inner"):
        pass
    stop_tracing()
    inner, outer = exporter.get_finished_spans()
    assert outer.attributes == {"repo": "octo/hello"}
    assert inner.parent is not None and inner.parent.span_id == outer.context.span_id
    assert outer.resource.attributes["service.name"] == "hostler"


def test_nothing_is_traced_while_tracing_is_off():
    exporter = InMemorySpanExporter()
    with span("quiet"):
        pass
    assert exporter.get_finished_spans() == ()


def test_without_the_extra_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(MissingExtra, match="Tracing") as caught:
        start_tracing()
    assert "hostler[otel]" in caught.value.remedy
