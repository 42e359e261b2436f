"""Secrets never reach a log: by value, on whatever road they come."""

from __future__ import annotations

import base64
import io
import json
import logging
from urllib.parse import quote

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hostler.clock import FakeClock
from hostler.telemetry import redaction as redact_module
from hostler.telemetry.logs import LogDestinations
from hostler.telemetry.names import COMMAND_FAILED
from hostler.telemetry.redaction import (
    MIN_SECRET_LENGTH,
    REDACTED,
    Redactor,
    looks_like_secret,
    redact,
)

# No well-known shape, and characters that JSON, URLs and repr all write differently.
TOKEN = 'hush/7"q+\\ Zé%k=Q4wz'


class Holder:
    def __repr__(self) -> str:
        return f"<Holder {TOKEN}>"

    __str__ = __repr__


def raised() -> Exception:
    try:
        raise ValueError(f"bad credentials {TOKEN}")
    except ValueError as error:
        return error


def foreign(log) -> None:
    logging.getLogger("urllib3").error("GET https://host/?token=%s failed", quote(TOKEN, safe=""))


QUOTED = quote(TOKEN, safe="")
BASIC = base64.b64encode(f"x-access-token:{TOKEN}".encode()).decode()
WAYS = {
    "a field": lambda log: log.event(COMMAND_FAILED, field=TOKEN),
    "a nested value": lambda log: log.event(COMMAND_FAILED, field={"a": [{"b": TOKEN}]}),
    "a key": lambda log: log.event(COMMAND_FAILED, field={TOKEN: 1}),
    "a bound field": lambda log: log.bind(token=TOKEN).event(COMMAND_FAILED),
    "inside a sentence": lambda log: log.event(COMMAND_FAILED, message=f"sent {TOKEN} away"),
    "a URL's query": lambda log: log.event(COMMAND_FAILED, url=f"https://h/?t={quote(TOKEN)}"),
    "a URL's user": lambda log: log.event(COMMAND_FAILED, url=f"https://x:{QUOTED}@h"),
    "a Basic header": lambda log: log.event(COMMAND_FAILED, header=f"Basic {BASIC}"),
    "bytes": lambda log: log.event(COMMAND_FAILED, data=TOKEN.encode()),
    "an exception": lambda log: log.event(COMMAND_FAILED, error=raised()),
    "an object": lambda log: log.event(COMMAND_FAILED, thing=Holder()),
    "JSON inside JSON": lambda log: log.event(COMMAND_FAILED, body=json.dumps({"t": TOKEN})),
    "hexadecimal": lambda log: log.event(COMMAND_FAILED, dump=TOKEN.encode().hex()),
    "another library": foreign,
}  # fmt: skip


@pytest.fixture
def secrets(monkeypatch) -> Redactor:
    """The process's redactor, replaced so that tests leave nothing behind."""
    fresh = Redactor()
    monkeypatch.setattr("hostler.telemetry.logs.redact", fresh.redact)
    monkeypatch.setattr("hostler.telemetry.logs.redact_value", fresh.clean)
    return fresh


@pytest.mark.parametrize("way", WAYS)
def test_a_token_is_in_no_log_however_it_came(way, secrets, tmp_path):
    secrets.add(TOKEN)
    terminal = io.StringIO()
    logs = LogDestinations(FakeClock(), tmp_path, terminal=terminal)
    logs.capture_foreign()
    WAYS[way](logs.log)
    logs.close()
    written = "".join(path.read_text() for path in tmp_path.iterdir())
    for text in (written, terminal.getvalue()):
        assert REDACTED in text
        assert not any(form in text for form in redact_module.encoded_forms(TOKEN))
        assert TOKEN[5:15] not in text
        assert base64.b64encode(TOKEN.encode()).decode()[4:20] not in text


def test_every_line_is_still_json_after_redaction(secrets, tmp_path):
    secrets.add(TOKEN)
    logs = LogDestinations(FakeClock(), tmp_path)
    for way in WAYS.values():
        if way is not foreign:
            way(logs.log)
    logs.close()
    lines = [line for path in tmp_path.iterdir() for line in path.read_text().splitlines()]
    assert len(lines) == len(WAYS) - 1
    assert all(json.loads(line)["event"] == "command_failed" for line in lines)


@given(st.text(min_size=MIN_SECRET_LENGTH, max_size=60), st.text(max_size=40), st.text(max_size=40))
def test_no_known_secret_survives_in_any_surrounding(secret: str, before: str, after: str):
    assume(secret not in REDACTED and secret.strip())
    redactor = Redactor()
    redactor.add(secret)
    for form in redact_module.encoded_forms(secret):
        assume(form not in REDACTED and form not in before + REDACTED + after)
        if len(form) >= MIN_SECRET_LENGTH:
            assert form not in redactor.redact(before + form + after)


@given(st.binary(max_size=7), st.text(min_size=16, max_size=60), st.binary(max_size=7))
def test_a_secret_inside_base64_is_hidden_at_every_offset(before: bytes, secret: str, after: bytes):
    redactor = Redactor()
    redactor.add(secret)
    encoded = base64.b64encode(before + secret.encode() + after).decode()
    assert REDACTED in redactor.redact(encoded)


@given(st.text(max_size=200))
def test_text_without_secrets_stays_as_it_is(text: str):
    assume(not looks_like_secret(text))
    assert Redactor().redact(text) == text


@pytest.mark.parametrize(
    "token",
    ["ghp_" + "a1B2" * 9, "gho_" + "x" * 36, "ghs_" + "9" * 36, "github_pat_" + "A1b2_" * 10,
     "sk-ant-api03-" + "Zz09-_" * 8, "sk-proj-" + "q" * 40, "xoxb-123456789012-abcdef",
     "AIza" + "b" * 35],
)  # fmt: skip
def test_well_known_tokens_are_hidden_even_if_nobody_registered_them(token: str):
    assert looks_like_secret(f"before {token} after")
    assert Redactor().redact(f"before {token} after") == f"before {REDACTED} after"


def test_credentials_in_an_address_are_hidden_and_the_host_is_kept():
    line = Redactor().redact("fetch https://me:pass@example.com/x.git")
    assert line == f"fetch https://{REDACTED}@example.com/x.git"


def test_each_line_of_a_private_key_is_hidden_by_itself():
    redactor = Redactor()
    redactor.add("FIRSTLINEOFTHEKEY\nSECONDLINEOFTHEKEY")
    assert redactor.redact("see SECONDLINEOFTHEKEY") == f"see {REDACTED}"


def test_a_short_value_does_not_blank_out_ordinary_words():
    redactor = Redactor()
    redactor.add("main")
    assert redactor.redact("the main branch") == "the main branch"


def test_an_expired_secret_can_be_forgotten_and_others_stay_hidden():
    redactor = Redactor()
    redactor.add("first-secret-value")
    redactor.add("second-secret-value")
    redactor.add("second-secret-value")
    redactor.forget("first-secret-value")
    redactor.forget("never-known-value")
    text = redactor.redact("first-secret-value second-secret-value")
    assert text == f"first-secret-value {REDACTED}"


def test_a_secret_in_url_safe_base64_is_hidden():
    redactor = Redactor()
    secret = "?>?>?>?>?>?>secret>?>?>?>?"
    redactor.add(secret)
    encoded = base64.urlsafe_b64encode(secret.encode()).decode()
    assert "-" in encoded or "_" in encoded
    assert redactor.redact(encoded).startswith(REDACTED)


def test_a_secret_that_only_the_finished_line_shows_is_hidden(secrets, tmp_path):
    secrets.add('half-of-it": "other-half')
    logs = LogDestinations(FakeClock(), tmp_path)
    logs.log.event(COMMAND_FAILED, **{"half-of-it": "other-half"})
    logs.close()
    assert "other-half" not in "".join(path.read_text() for path in tmp_path.iterdir())


@pytest.mark.parametrize("name", ["20260301-120000-stable-task-list-shows-everything-twice"])
def test_names_of_tasks_are_no_secrets(name):
    for text in (name, f"see {name}.", json.dumps({"id": name}), "add-sk-translations-for-menus"):
        assert not looks_like_secret(text)
    for key in ("sk-" + "a" * 30, "key=sk-" + "b" * 30, "my-key-sk-ant-" + "c" * 30):
        assert looks_like_secret(key)


KEY = "sk-" + "a1" * 15
BEFORE = ["", "\n", "\t", "\r\n", "\x1b[32m", "\x1b[m", "\x1b", "\u2028", "(", '"', "\\"]


@pytest.mark.parametrize("before", BEFORE)
def test_a_key_is_hidden_whatever_stands_before_it_also_in_json(before):
    text = f"below{before} {KEY}" if before == "" else f"below{before}{KEY}"
    for written in (text, json.dumps(text), json.dumps(json.dumps(text)), repr(text)):
        assert KEY not in redact(written) and looks_like_secret(written), written


def test_what_follows_an_address_in_json_is_not_its_password():
    text = json.dumps({"url": "https://host", "name": "@scope/package"}, separators=(",", ":"))
    assert redact(text) == text


@pytest.mark.parametrize("end", ["", "-----END", "-----END PRIVATE KEY----"])
def test_many_beginnings_of_keys_take_no_longer_than_their_text(end):
    """With a search to the end for each of them, this would take half an hour."""
    text = "-----BEGIN PRIVATE KEY-----\n" * 70_000 + end
    assert redact(text) == text and not looks_like_secret(text)


def test_the_last_of_many_beginnings_has_its_key_hidden():
    key = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4\n\nMII-B\n-----END RSA PRIVATE KEY-----"
    assert redact("-----BEGIN PRIVATE KEY-----\n" * 3 + key).count("MII") == 0


def test_the_frame_of_a_known_key_is_no_secret_by_itself():
    redactor, first = Redactor(), "-----BEGIN RSA PRIVATE KEY-----"
    redactor.add(f"{first}\nMIIBVgIBADANBgkq\n-----END RSA PRIVATE KEY-----")
    assert redactor.redact(first) == first and not redactor.finds(first)
    assert redactor.redact("MIIBVgIBADANBgkq") == REDACTED
