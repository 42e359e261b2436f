"""OpenTelemetry traces, off by default.

Where they go is OpenTelemetry's own business: its `OTEL_*` variables say (by default to a
collector on this machine).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hostler.errors import MissingExtra

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

_provider: TracerProvider | None = None


def start_tracing(exporter: SpanExporter | None = None) -> None:
    """Start tracing in this process."""
    global _provider
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise MissingExtra("Tracing", "otel") from error
    _provider = TracerProvider(resource=Resource.create({"service.name": "hostler"}))
    _provider.add_span_processor(BatchSpanProcessor(exporter or OTLPSpanExporter()))


def stop_tracing() -> None:
    """Send buffered spans and stop tracing."""
    global _provider
    if _provider is not None:
        _provider.shutdown()
    _provider = None


@contextmanager
def span(name: str, **attributes: str | int | float | bool) -> Iterator[None]:
    """Record a span for the block; does nothing while tracing is off."""
    if _provider is None:
        yield
        return
    with _provider.get_tracer("hostler").start_as_current_span(name, attributes=attributes):
        yield
