"""What a delivery is worth: only what is signed, new, and readable has any effect."""

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
    verdict = DeliveryVerifier(SECRET).judge(signed(body_of("Octo/Stable")))
    assert (verdict.answer, verdict.repo) == (WebhookStatus.TAKEN, "octo/stable")


def test_githubs_own_example_is_signed_as_we_sign():
    """The example of GitHub's documentation."""
    signature = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    assert sign_delivery(b"Hello, World!", b"It's a Secret to Everybody") == f"sha256={signature}"


@given(st.binary(max_size=60), st.binary(min_size=1, max_size=20), st.text(max_size=80))
def test_whoever_does_not_know_the_secret_gets_nowhere(body, other, given_signature):
    keeper = DeliveryVerifier(SECRET)
    assert given_signature != sign_delivery(body, SECRET)
    forged = WebhookDelivery({"x-hub-signature-256": given_signature, **JSON}, body)
    assert keeper.judge(forged).answer is WebhookStatus.FORGED
    if other != SECRET:
        assert keeper.judge(signed(body, other)).answer is WebhookStatus.FORGED
    assert keeper.judge(WebhookDelivery(JSON, body)).answer is WebhookStatus.FORGED


@given(st.integers(0, 200), st.integers(1, 255))
def test_a_changed_body_is_forged(place, change):
    body = bytearray(body_of("octo/stable"))
    genuine = signed(bytes(body))
    body[place % len(body)] ^= change
    changed = WebhookDelivery(genuine.headers, bytes(body))
    assert DeliveryVerifier(SECRET).judge(changed).answer is WebhookStatus.FORGED


def test_the_same_words_again_are_refused_whatever_number_they_bear():
    keeper = DeliveryVerifier(SECRET)
    body = body_of("octo/stable")
    assert keeper.judge(signed(body, **{"x-github-delivery": "1"})).repo
    again = keeper.judge(signed(body, **{"x-github-delivery": "2"}))
    assert (again.answer, again.repo) == (WebhookStatus.SEEN_BEFORE, None)
    assert keeper.judge(signed(body_of("octo/stable", 2))).answer is WebhookStatus.TAKEN


def test_memory_is_bounded_and_forgets_the_oldest():
    keeper = DeliveryVerifier(SECRET, remembered=3)
    for number in range(4):
        keeper.judge(signed(body_of("octo/stable", number)))
    answers = [keeper.judge(signed(body_of("octo/stable", n))).answer for n in (3, 2, 0)]
    assert answers == [WebhookStatus.SEEN_BEFORE, WebhookStatus.SEEN_BEFORE, WebhookStatus.TAKEN]


@given(words)
def test_any_json_is_an_answer_and_never_an_error(payload):
    verdict = DeliveryVerifier(SECRET).judge(signed(json.dumps(payload).encode()))
    wanted = WebhookStatus.TAKEN if isinstance(payload, dict) else WebhookStatus.UNREADABLE
    assert verdict.answer is wanted
    assert verdict.repo is None or isinstance(verdict.repo, str)


@pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b"nonsense"])
def test_signed_nonsense_is_unreadable(body):
    assert DeliveryVerifier(SECRET).judge(signed(body)).answer is WebhookStatus.UNREADABLE


def test_a_form_is_not_json_and_a_keeper_needs_a_secret():
    form = signed(b"payload=x", **{"content-type": "application/x-www-form-urlencoded"})
    assert DeliveryVerifier(SECRET).judge(form).answer is WebhookStatus.NOT_JSON
    with pytest.raises(ValueError):
        DeliveryVerifier(b"")
