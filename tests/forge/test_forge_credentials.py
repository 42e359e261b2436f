"""Who we are: token, file, gh, App; renewal and expiry; and no secret anywhere."""

from __future__ import annotations

import io
import os
import stat
import sys
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from hostler.config.settings import GitHub as Settings
from hostler.errors import CredentialsMissing, NotFound, Unauthorized
from hostler.forge.actions import CreateComment
from hostler.forge.github.client.credentials import (
    RENEWAL_MARGIN,
    GitHubApp,
    StaticToken,
    open_credentials,
)
from hostler.forge.github.hub import GitHubHub, open_github
from hostler.forge.github.polling.poller import scan_repository
from hostler.model import RepoName
from hostler.sandbox.auth import AppRegistration as SandboxApp
from hostler.sandbox.auth import token_for
from hostler.telemetry.logs import LogDestinations
from hostler.telemetry.names import COMMAND_FAILED
from hostler.telemetry.redaction import REDACTED, redact

SECRET = token_for("bot")


@pytest.fixture(scope="module")
def key_pair():
    key = rsa.generate_private_key(public_exponent=65_537, key_size=2048)
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return private.decode(), public.decode()


@pytest.fixture
def settings(sandbox_repo, monkeypatch):
    """Settings of a clean user."""
    monkeypatch.delenv("GITHUB_TOKEN", raising=False)
    monkeypatch.setenv("PATH", "")

    def make(**values):
        return Settings(api_url=sandbox_repo.sandbox.url, **values)

    return make


def login(sandbox_repo, settings):
    with closing(open_github(settings, sandbox_repo.clock)) as hub:
        return hub.repo(sandbox_repo.name).own_login()


def fake_gh(tmp_path, monkeypatch, script):
    program = tmp_path / "gh"
    program.write_text(f"#!{sys.executable}\n{script}")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path))


def test_a_token_from_the_environment(sandbox_repo, settings, monkeypatch):
    monkeypatch.setenv("GITHUB_TOKEN", f"{SECRET}\n")
    assert login(sandbox_repo, settings()) == "bot"
    monkeypatch.setenv("OTHER", token_for("bob"))
    assert login(sandbox_repo, settings(token_env="OTHER")) == "bob"


def test_a_token_from_a_file_wins_over_the_environment(
    sandbox_repo, settings, monkeypatch, tmp_path
):
    monkeypatch.setenv("GITHUB_TOKEN", token_for("bob"))
    file = tmp_path / "token"
    file.write_text(f"{SECRET}\n")
    assert login(sandbox_repo, settings(token_file=str(file))) == "bot"


def test_a_token_from_gh(sandbox_repo, settings, monkeypatch, tmp_path):
    fake_gh(
        tmp_path, monkeypatch, f"import sys\nprint({SECRET!r})\nprint(sys.argv, file=sys.stderr)"
    )
    assert login(sandbox_repo, settings(auth="gh")) == "bot"
    assert login(sandbox_repo, settings()) == "bot"


@pytest.mark.parametrize("script", ["raise SystemExit(1)", "", "print('two words')"])
def test_a_gh_without_a_token_is_named(sandbox_repo, settings, monkeypatch, tmp_path, script):
    fake_gh(tmp_path, monkeypatch, script)
    with pytest.raises(CredentialsMissing) as caught:
        login(sandbox_repo, settings(auth="gh"))
    assert caught.value.remedy


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"auth": "token"},
        {"token_file": "/nowhere/token"},
        {"auth": "app", "app_id": 1, "app_private_key_file": "/nowhere/key"},
    ],
    ids=str,
)
def test_missing_credentials_are_named_with_what_to_do(sandbox_repo, settings, values):
    with pytest.raises(CredentialsMissing) as caught:
        login(sandbox_repo, settings(**values))
    assert caught.value.remedy


def test_a_wrong_token_is_unauthorized_and_asked_for_once_more(sandbox_repo, settings, tmp_path):
    file = tmp_path / "token"
    file.write_text("ghp_wrong_wrong_wrong")
    with closing(open_github(settings(token_file=str(file)), sandbox_repo.clock)) as hub:
        forge = hub.repo(sandbox_repo.name)
        with pytest.raises(Unauthorized):
            forge.repository()
        file.write_text(SECRET)
        assert forge.repository().name == sandbox_repo.name


def test_a_rotated_token_is_read_again_even_for_a_write(sandbox_repo, settings, tmp_path):
    number = sandbox_repo.issue()
    file = tmp_path / "token"
    file.write_text(SECRET)
    with closing(open_github(settings(token_file=str(file)), sandbox_repo.clock)) as hub:
        forge = hub.repo(sandbox_repo.name)
        forge.repository()
        file.write_text(token_for("bob"))
        sandbox_repo.fault("status", status=401, method="POST")
        forge.perform(CreateComment(number, "x"), token="t1")
    (comment,) = sandbox_repo.comments(number)
    assert comment["user"]["login"] == "bob"


@pytest.fixture
def app_hub(sandbox_repo, key_pair):
    """A hub whose credentials are an App's; the App is installed on alice's account."""
    slug = f"helper{sandbox_repo.name.name}"
    seed = {"slug": slug, "owner": "alice", "public_key": key_pair[1], "installed_on": ["alice"]}
    sandbox_repo.sandbox.seed({"apps": [seed]})
    found = sandbox_repo.sandbox.do(
        lambda world: max(app.id for app in world.truth.all(SandboxApp))
    )
    credentials = GitHubApp(sandbox_repo.hub.transport, found, key_pair[0])
    hub = GitHubHub(sandbox_repo.hub.transport, credentials, sandbox_repo.clock, pauses=(0.0,))
    hub.slug = slug
    return hub


def bought(sandbox_repo):
    """How many installation tokens we asked for."""
    return sum(row["path"].endswith("/access_tokens") for row in sandbox_repo.ledger(status="201"))


def test_an_app_works_as_its_bot_and_buys_one_token(sandbox_repo, app_hub):
    number = sandbox_repo.issue()
    forge = app_hub.repo(sandbox_repo.name)
    assert forge.own_login() == f"{app_hub.slug}[bot]"
    for key in ("t1", "t2", "t3"):
        forge.perform(CreateComment(number, "x"), token=key)
    assert bought(sandbox_repo) == 1
    assert {c["user"]["login"] for c in sandbox_repo.comments(number)} == {f"{app_hub.slug}[bot]"}


def test_an_apps_token_is_renewed_before_its_end_by_githubs_clock(sandbox_repo, app_hub):
    forge = app_hub.repo(sandbox_repo.name)
    forge.repository()
    hour = timedelta(hours=1)
    sandbox_repo.pass_time((hour - RENEWAL_MARGIN).total_seconds() - 60)
    forge.repository()
    assert bought(sandbox_repo) == 1
    sandbox_repo.pass_time(61)
    forge.repository()
    assert bought(sandbox_repo) == 2
    assert not sandbox_repo.ledger(status="401")


def test_a_clock_that_is_wrong_by_hours_does_not_disturb_an_app(sandbox_repo, app_hub):
    forge = app_hub.repo(sandbox_repo.name)
    sandbox_repo.clock.jump(5 * 3600)
    forge.repository()
    sandbox_repo.clock.jump(-9 * 3600)
    forge.repository()
    assert not sandbox_repo.ledger(status="401")


def test_an_apps_token_that_was_revoked_is_bought_anew(sandbox_repo, app_hub):
    number = sandbox_repo.issue()
    forge = app_hub.repo(sandbox_repo.name)
    forge.repository()
    secret = app_hub.credentials.get_secret(sandbox_repo.name)
    sandbox_repo.sandbox.client(token=secret).delete("/installation/token")
    forge.perform(CreateComment(number, "x"), token="t1")
    assert bought(sandbox_repo) == 2
    assert sandbox_repo.marked(number, "t1") == 1


def test_an_app_that_is_not_installed_there_finds_nothing(sandbox_repo, app_hub):
    sandbox_repo.sandbox.seed({"repos": [{"name": f"bob/{sandbox_repo.name.name}"}]})
    with pytest.raises(NotFound):
        app_hub.repo(RepoName("bob", sandbox_repo.name.name)).repository()


def test_a_key_that_is_none_is_named_without_being_shown(sandbox_repo):
    nonsense = "-----BEGIN RSA PRIVATE KEY-----\nc2VjcmV0\n-----END RSA PRIVATE KEY-----"
    app = GitHubApp(sandbox_repo.hub.transport, 1, nonsense)
    with pytest.raises(CredentialsMissing) as caught:
        app.login()
    assert "c2VjcmV0" not in f"{caught.value} {caught.value.__cause__}"


def test_settings_with_an_app_use_it(sandbox_repo, settings, tmp_path, key_pair):
    file = tmp_path / "key.pem"
    file.write_text(key_pair[0])
    found = open_credentials(
        settings(app_id=7, app_private_key_file=str(file)), sandbox_repo.hub.transport
    )
    assert isinstance(found, GitHubApp)
    assert isinstance(
        open_credentials(settings(auth="token", app_id=7), sandbox_repo.hub.transport), StaticToken
    )


def test_no_secret_is_in_urls_arguments_logs_or_the_database(
    sandbox_repo, app_hub, store, database, tmp_path, key_pair, post
):
    """A scan and a write, by token and by App, and an agent that quotes our secrets."""
    number = sandbox_repo.issue(body="hello")
    sandbox_repo.hub = GitHubHub(
        sandbox_repo.hub.transport,
        StaticToken(sandbox_repo.hub.transport, lambda: SECRET),
        sandbox_repo.clock,
    )
    scan_repository(store, sandbox_repo.hub.repo(sandbox_repo.name), sandbox_repo.name)
    post.sender = post.new_sender()
    app_hub.repo(sandbox_repo.name).repository()
    bought_token = app_hub.credentials.get_secret(sandbox_repo.name)
    secrets = [SECRET, bought_token, *key_pair[0].splitlines()[1:-1]]
    post.queue(CreateComment(number, f"my tokens are {SECRET} and {bought_token}"))
    post.drain()
    urls = " ".join(f"{row['path']}?{row['query']}" for row in sandbox_repo.ledger())
    arguments = " ".join(sys.argv) + Path(f"/proc/{os.getpid()}/cmdline").read_text()
    stored = b"".join(path.read_bytes() for path in database.iterdir() if path.is_file())
    logged = io.StringIO()
    LogDestinations(sandbox_repo.clock, None, terminal=logged).log.event(
        COMMAND_FAILED, command="x", error=RuntimeError(f"{SECRET} {bought_token}")
    )
    said = " ".join(comment["body"] for comment in sandbox_repo.comments(number))
    for secret in secrets:
        assert secret not in urls
        assert secret not in arguments
        assert secret.encode() not in stored
        assert secret not in logged.getvalue()
        assert secret not in said
        assert redact(secret) == REDACTED
    assert REDACTED in said
