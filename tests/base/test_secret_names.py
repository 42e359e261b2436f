"""Which values are hidden everywhere, by the names of their variables."""

from __future__ import annotations

import pytest

from hostler.config.settings import Settings, read_named_secrets


@pytest.mark.parametrize(
    "name", ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "MY_PASSWORD"]
)
def test_keys_of_providers_are_secrets(name):
    value = "proxy-token-0123456789abcdef"
    assert list(read_named_secrets(Settings(), {name: value, "PATH": "/bin"})) == [value]


def test_ordinary_words_stay():
    given = {"SOME_API_KEY": "dummy", "KEYBOARD": "0123456789", "TOKENIZER": "0123456789"}
    assert list(read_named_secrets(Settings(), given)) == []
