"""Secrets in streams of bytes: covered in their place, and kept back while they come."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.telemetry.redaction import (
    CONTEXT_BYTES,
    context_size,
    mask_bytes,
    partial_secret_length,
)

FORMS = st.lists(st.binary(min_size=8, max_size=12), min_size=1, max_size=3, unique=True)
# Few letters, so that much looks like the beginning of a secret.
NARROW = st.lists(
    st.lists(st.sampled_from(b"ab"), min_size=8, max_size=10).map(bytes), min_size=1, max_size=3
)
KEY = b"-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----"
SHAPED = [
    b"ghp_" + b"a" * 30,
    b"github_pat_" + b"b" * 40,
    b"sk-ant-" + b"c" * 40,
    b"xoxb-" + b"1" * 20,
    b"AIza" + b"d" * 35,
    KEY,
]


@given(NARROW, st.lists(st.sampled_from(b"ab\n"), max_size=80).map(bytes))
def test_every_secret_is_covered_and_nothing_moves(forms, data):
    shown = mask_bytes(data, forms)
    assert len(shown) == len(data) and not any(form in shown for form in forms)
    covered = {at for at in range(len(data)) if shown[at] != data[at]}
    inside = {
        at
        for form in forms
        for start in range(len(data))
        if data.startswith(form, start)
        for at in range(start, start + len(form))
    }
    assert covered == inside


@given(NARROW, st.lists(st.sampled_from(b"ab\n"), max_size=60).map(bytes), st.integers(0, 60))
def test_what_is_told_of_a_stream_that_grows_stays_true(forms, data, cut):
    early = data[:cut]
    settled = len(early) - partial_secret_length(early, forms)
    assert mask_bytes(early, forms)[:settled] == mask_bytes(data, forms)[:settled]


@given(FORMS, st.binary(max_size=40))
def test_only_what_may_become_a_secret_is_kept_back(forms, data):
    kept = partial_secret_length(data, forms)
    tail = data[len(data) - kept :]
    looks = (b"sk-", b"gh", b"xox", b"AIza", b"://", b"-----BEGIN ")
    assert not kept or any(form.startswith(tail) for form in forms) or tail.startswith(looks)
    assert partial_secret_length(data + b"\n", [form for form in forms if b"\n" not in form]) == 0


@pytest.mark.parametrize("secret", SHAPED)
def test_well_known_shapes_are_covered_wherever_they_are_cut(secret):
    data = b"see " + secret + b"\nand go on"
    assert mask_bytes(data, []).count(b"*") == len(secret) - secret.count(b"\n")
    for cut in range(len(b"see ") + 11, len(b"see ") + len(secret)):
        told = data[: cut - partial_secret_length(data[:cut], [])]
        assert told == b"see ", told


def test_a_password_in_an_address_is_covered():
    assert (
        mask_bytes(b"git clone https://me:secret@host/x", [])
        == b"git clone https://*********@host/x"
    )
    assert partial_secret_length(b"git clone https://me:sec", []) == len("://me:sec")


def test_a_key_without_an_end_is_not_kept_back_for_ever():
    assert partial_secret_length(b"x" + KEY[:40], []) == 40
    assert partial_secret_length(KEY[:40] + b"\n" * CONTEXT_BYTES, []) == 0
    assert partial_secret_length(KEY, []) == 0


def test_long_secrets_reach_farther():
    assert context_size([]) == CONTEXT_BYTES and context_size([b"x" * 99_999]) == 99_999


@pytest.mark.parametrize("end", [b"", b"-----END PRIVATE KEY----"])
def test_many_beginnings_of_keys_take_no_longer_than_their_text(end):
    data = b"-----BEGIN PRIVATE KEY-----\n" * 70_000 + end
    assert mask_bytes(data, []) == data
    assert partial_secret_length(data, []) == len(b"-----BEGIN PRIVATE KEY-----\n" + end)
