"""A call as the other side wants it: JSON, Slack or ntfy; and its signature. Pure."""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Literal

from hostler.store.operator import Notice
from hostler.telemetry.redact import redact

Shape = Literal["generic", "slack", "ntfy"]
SIGNATURE = "X-Hostler-Signature-256"
_PRIORITY = {"restart_failed": "high", "blocked": "high", "parked": "low"}


@dataclass(frozen=True, slots=True)
class Call:
    """One request: its body and its headers."""

    body: bytes
    headers: Mapping[str, str]


def shaped(notice: Notice, shape: Shape, secret: str = "") -> Call:
    """A notice in one of the shapes; signed, if there is a secret."""
    call = {"generic": _generic, "slack": _slack, "ntfy": _ntfy}[shape](notice)
    if not secret:
        return call
    signed = {SIGNATURE: signature_of(call.body, secret)}
    return Call(call.body, {**call.headers, **signed})


def signature_of(body: bytes, secret: str) -> str:
    """The HMAC of a body, as GitHub's webhooks write theirs."""
    return f"sha256={hmac.new(secret.encode(), body, sha256).hexdigest()}"


def delivery_of(notice: Notice) -> str:
    """The same for each attempt of one call, so that the other side can tell repetitions."""
    return sha256(notice.key.encode()).hexdigest()[:32]


def _generic(notice: Notice) -> Call:
    fields = {
        "version": 1,
        "occasion": notice.occasion,
        "title": redact(notice.title),
        "body": redact(notice.body),
        "url": notice.url,
        "delivery": delivery_of(notice),
        "at": notice.created_at,
    }
    headers = {
        "Content-Type": "application/json",
        "X-Hostler-Event": notice.occasion,
        "X-Hostler-Delivery": delivery_of(notice),
    }
    return Call(_json(fields), headers)


def _slack(notice: Notice) -> Call:
    title = f"*{_slack_text(notice.title)}*"
    where = f"\n<{notice.url}>" if notice.url else ""
    said = f"\n{_slack_text(notice.body)}" if notice.body else ""
    return Call(_json({"text": f"{title}{said}{where}"}), {"Content-Type": "application/json"})


def _slack_text(text: str) -> str:
    """Text that Slack shows as it is: no links, no mentions."""
    plain = redact(text).replace("&", "&amp;")
    return plain.replace("<", "&lt;").replace(">", "&gt;")


def _ntfy(notice: Notice) -> Call:
    headers = {
        "Content-Type": "text/plain; charset=utf-8",
        "Title": header(redact(notice.title)),
        "Priority": _PRIORITY.get(notice.occasion, "default"),
        "Tags": header(notice.occasion),
    }
    if notice.url:
        headers["Click"] = header(notice.url)
    body = redact(notice.body) or redact(notice.title)
    return Call(body.encode("utf-8", "replace"), headers)


def header(text: str) -> str:
    """Text that fits into a header: one line of ASCII."""
    line = " ".join(text.split())
    return "".join(c if " " <= c <= "~" else "?" for c in line)[:200]


def _json(fields: Mapping[str, object]) -> bytes:
    return json.dumps(fields, ensure_ascii=True).encode()
