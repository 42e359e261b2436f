"""`hostler notify test`: one call, and a clear word about how it went."""

from __future__ import annotations

import json

import pytest
from test_notify_posting import listener
from typer.testing import CliRunner

from hostler.cli.main import app
from hostler.errors import HostlerError

run = CliRunner()


@pytest.fixture
def config(tmp_path):
    def write(**keys: str) -> list[str]:
        lines = [f'{name} = "{value}"' for name, value in keys.items()]
        (tmp_path / "hostler.toml").write_text("\n".join(["[notify]", *lines]))
        return ["--home", str(tmp_path), "--config", str(tmp_path / "hostler.toml")]

    return write


def test_a_call_is_made_and_the_answer_is_said(config, monkeypatch):
    with listener() as (address, arrived):
        monkeypatch.setenv("WHERE", address.url)
        monkeypatch.setenv("KEY", "secret")
        given = config(url_env="WHERE", secret_env="KEY", shape="ntfy")
        said = run.invoke(app, [*given, "notify", "test"])
        assert said.exit_code == 0 and "HTTP 200 (ntfy, signed)" in said.output
        assert "s3cret" not in said.output
        told = run.invoke(app, [*given, "notify", "test", "--json"])
        assert json.loads(told.output) == {"status": 200, "shape": "ntfy", "signed": True}
    assert len(arrived) == 2 and b"notifications work" in arrived[0][2]


def test_without_an_address_nothing_is_sent(config):
    said = run.invoke(app, [*config(), "notify", "test"])
    assert isinstance(said.exception, HostlerError)
    assert (
        "No notification address" in said.exception.what
        and "notify.url_env" in said.exception.remedy
    )


def test_a_refusal_is_an_error_without_the_address(config, monkeypatch):
    with listener(403) as (address, _):
        monkeypatch.setenv("WHERE", address.url)
        said = run.invoke(app, [*config(url_env="WHERE"), "notify", "test"])
    assert isinstance(said.exception, HostlerError) and "HTTP 403" in said.exception.what
    assert "s3cret" not in " ".join(said.exception.lines())
