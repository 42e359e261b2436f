"""Access tokens and browser sessions: creation, permissions and expiry."""

from __future__ import annotations

import stat

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from example_counts import examples
from hostler.clock import FakeClock
from hostler.config.settings import Web
from hostler.telemetry.redaction import redact
from hostler.web.auth import (
    AUTH_FILE_NAME,
    MAX_SESSION_SECONDS,
    SESSION_IDLE_SECONDS,
    NoToken,
    SessionStore,
    read_or_create_token,
)


def test_a_token_is_created_once_with_private_permissions(tmp_path):
    home = tmp_path / "home"
    first = read_or_create_token(Web(), home, {}, require_own=False)
    assert len(first.value) >= 40
    assert stat.S_IMODE((home / AUTH_FILE_NAME).stat().st_mode) == 0o600
    assert read_or_create_token(Web(), home, {}, require_own=False) == first
    assert [path.name for path in home.iterdir()] == [AUTH_FILE_NAME]


def test_a_token_is_redacted_from_logs(tmp_path):
    made = read_or_create_token(Web(), tmp_path, {}, require_own=False)
    assert made.value not in redact(f"GET /x?token={made.value}") and made.value not in repr(made)


def test_the_settings_can_name_another_token(tmp_path):
    file = tmp_path / "token"
    file.write_text("a-token-from-a-file\n")
    file.chmod(0o600)
    found = read_or_create_token(Web(token_file=str(file)), tmp_path, {}, require_own=True)
    assert found.value == "a-token-from-a-file"
    found = read_or_create_token(
        Web(token_env="T"), tmp_path, {"T": "a-token-from-outside"}, require_own=True
    )
    assert (found.value, found.where) == ("a-token-from-outside", "$T")


def test_remote_access_requires_a_configured_token(tmp_path):
    with pytest.raises(NoToken, match="your own access token"):
        read_or_create_token(Web(), tmp_path, {}, require_own=True)
    assert not (tmp_path / AUTH_FILE_NAME).exists()


def bad_file(tmp_path, how):
    file = tmp_path / "token"
    if how == "short":
        file.write_text("short")
    elif how == "open":
        file.write_text("a-token-for-everybody")
        file.chmod(0o644)
        return file
    elif how == "link":
        (tmp_path / "real").write_text("a-token-behind-a-link")
        file.symlink_to(tmp_path / "real")
        return file
    elif how == "binary":
        file.write_bytes(b"\xff" * 40)
    elif how == "missing":
        return file
    file.chmod(0o600)
    return file


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("short", "shorter"),
        ("open", "Other users can read"),
        ("link", "symbolic link"),
        ("binary", "not plain text"),
        ("missing", "is missing"),
    ],
)
def test_unusable_token_files_are_refused_with_a_reason(tmp_path, how, words):
    with pytest.raises(NoToken, match=words) as refused:
        read_or_create_token(
            Web(token_file=str(bad_file(tmp_path, how))), tmp_path, {}, require_own=False
        )
    assert refused.value.remedy and "Nothing was started" in refused.value.safe


def test_an_empty_variable_is_not_a_token(tmp_path):
    with pytest.raises(NoToken, match="is empty"):
        read_or_create_token(Web(token_env="T"), tmp_path, {}, require_own=False)


def test_a_session_ends_when_idle_old_or_closed():
    clock = FakeClock()
    sessions = SessionStore(clock)
    idle, closed = sessions.open(), sessions.open()
    sessions.close(closed)
    assert sessions.find(closed) is None and sessions.find(idle) is not None
    clock.advance(SESSION_IDLE_SECONDS + 1)
    assert sessions.find(idle) is None
    used = sessions.open()
    for _ in range(int(MAX_SESSION_SECONDS / SESSION_IDLE_SECONDS)):
        clock.advance(SESSION_IDLE_SECONDS)
        assert sessions.find(used) is not None
    clock.advance(1)
    assert sessions.find(used) is None


def test_the_session_unused_for_longest_is_dropped_at_the_limit():
    clock = FakeClock()
    sessions = SessionStore(clock, max_sessions=2)
    first, second = sessions.open(), sessions.open()
    clock.advance(1)
    assert sessions.find(first) is not None
    third = sessions.open()
    assert sessions.find(second) is None
    assert sessions.find(first) is not None and sessions.find(third) is not None


@given(st.text(max_size=60))
def test_unknown_session_ids_are_refused(name):
    sessions = SessionStore(FakeClock())
    made = sessions.open()
    assert (sessions.find(name) is not None) == (name == made)


class SessionsMachine(RuleBasedStateMachine):
    """Compare the session store with a model."""

    MOST = 3

    def __init__(self):
        super().__init__()
        self.clock = FakeClock()
        self.sessions = SessionStore(self.clock, self.MOST)
        self.model: dict[str, tuple[float, float]] = {}
        self.gone: list[str] = []

    def now(self):
        return self.clock.monotonic()

    @rule()
    def opens(self):
        self.forget()
        if len(self.model) == self.MOST:
            oldest = min(self.model, key=lambda name: self.model[name][1])
            self.gone.append(oldest)
            del self.model[oldest]
        made = self.sessions.open()
        assert made not in self.model and made not in self.gone
        self.model[made] = (self.now(), self.now())

    @rule(at=st.integers(0, 5))
    def uses(self, at):
        self.forget()
        names = [*self.model, *self.gone]
        if names:
            name = names[at % len(names)]
            assert (self.sessions.find(name) is not None) == (name in self.model)
            if name in self.model:
                self.model[name] = (self.model[name][0], self.now())

    @rule(at=st.integers(0, 5))
    def closes(self, at):
        if self.model:
            name = list(self.model)[at % len(self.model)]
            self.sessions.close(name)
            self.gone.append(name)
            del self.model[name]

    @rule(share=st.sampled_from([0.1, 0.4, 0.9, 1.1]))
    def waits(self, share):
        self.clock.advance(SESSION_IDLE_SECONDS * share)

    def forget(self):
        for name, (opened, used) in list(self.model.items()):
            if (
                self.now() - used > SESSION_IDLE_SECONDS
                or self.now() - opened > MAX_SESSION_SECONDS
            ):
                self.gone.append(name)
                del self.model[name]

    @invariant()
    def there_are_never_too_many(self):
        assert len(self.model) <= self.MOST


SessionsMachine.TestCase.settings = settings(
    max_examples=examples(15, 100), stateful_step_count=20, deadline=None
)
TestSessions = SessionsMachine.TestCase
