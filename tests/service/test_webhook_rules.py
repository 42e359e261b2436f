"""Verification of webhook deliveries: only signed, new and valid ones have an effect."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.service.polling.webhooks import (
    DeliveryVerifier,
    WebhookDelivery,
    WebhookStatus,
    sign_delivery,
)

SECRET = b"a long and lovely secret"
JSON = {"content-type": "application/json"}
words = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["repository", "full_name", "x"]) | st.text(max_size=5),
            inner,
            max_size=3,
        )
    ),
    max_leaves=10,
)


def body_of(repo: str, number: int = 1) -> bytes:
    return json.dumps({"repository": {"full_name": repo}, "number": number}).encode()


def signed(body: bytes, secret: bytes = SECRET, **headers: str) -> WebhookDelivery:
    return WebhookDelivery(
        {"x-hub-signature-256": sign_delivery(body, secret), **JSON, **headers}, body
    )


def test_a_signed_delivery_names_its_repository():
    verdict = DeliveryVerifier(SECRET).verify(signed(body_of("Octo/Stable")))
    assert (verdict.status, verdict.repo) == (WebhookStatus.ACCEPTED, "octo/stable")


def test_the_example_of_githubs_documentation_has_its_signature():
    """The example of GitHub's documentation."""
    signature = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    assert sign_delivery(b"Hello, World!", b"It's a Secret to Everybody") == f"sha256={signature}"


@given(st.binary(max_size=60), st.binary(min_size=1, max_size=20), st.text(max_size=80))
def test_deliveries_without_a_valid_signature_are_refused(body, other, given_signature):
    verifier = DeliveryVerifier(SECRET)
    assert given_signature != sign_delivery(body, SECRET)
    forged = WebhookDelivery({"x-hub-signature-256": given_signature, **JSON}, body)
    assert verifier.verify(forged).status is WebhookStatus.INVALID_SIGNATURE
    if other != SECRET:
        assert verifier.verify(signed(body, other)).status is WebhookStatus.INVALID_SIGNATURE
    assert verifier.verify(WebhookDelivery(JSON, body)).status is WebhookStatus.INVALID_SIGNATURE


@given(st.integers(0, 200), st.integers(1, 255))
def test_a_changed_body_is_refused(place, change):
    body = bytearray(body_of("octo/stable"))
    genuine = signed(bytes(body))
    body[place % len(body)] ^= change
    changed = WebhookDelivery(genuine.headers, bytes(body))
    assert DeliveryVerifier(SECRET).verify(changed).status is WebhookStatus.INVALID_SIGNATURE


def test_a_replay_is_refused_whatever_its_delivery_id():
    verifier = DeliveryVerifier(SECRET)
    body = body_of("octo/stable")
    assert verifier.verify(signed(body, **{"x-github-delivery": "1"})).repo
    again = verifier.verify(signed(body, **{"x-github-delivery": "2"}))
    assert (again.status, again.repo) == (WebhookStatus.REPLAYED, None)
    assert verifier.verify(signed(body_of("octo/stable", 2))).status is WebhookStatus.ACCEPTED


def test_remembered_signatures_are_limited():
    verifier = DeliveryVerifier(SECRET, max_signatures=3)
    for number in range(4):
        verifier.verify(signed(body_of("octo/stable", number)))
    answers = [verifier.verify(signed(body_of("octo/stable", n))).status for n in (3, 2, 0)]
    assert answers == [WebhookStatus.REPLAYED, WebhookStatus.REPLAYED, WebhookStatus.ACCEPTED]


@given(words)
def test_any_json_gets_a_response_and_never_an_error(payload):
    verdict = DeliveryVerifier(SECRET).verify(signed(json.dumps(payload).encode()))
    wanted = WebhookStatus.ACCEPTED if isinstance(payload, dict) else WebhookStatus.INVALID_BODY
    assert verdict.status is wanted
    assert verdict.repo is None or isinstance(verdict.repo, str)


@pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b"nonsense"])
def test_signed_invalid_json_is_refused(body):
    assert DeliveryVerifier(SECRET).verify(signed(body)).status is WebhookStatus.INVALID_BODY


def test_forms_are_refused_and_a_secret_is_required():
    form = signed(b"payload=x", **{"content-type": "application/x-www-form-urlencoded"})
    assert DeliveryVerifier(SECRET).verify(form).status is WebhookStatus.WRONG_CONTENT_TYPE
    with pytest.raises(ValueError):
        DeliveryVerifier(b"")
