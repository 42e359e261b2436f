"""The seed of a sandbox that was given none: two people, one repository, something to do."""

from __future__ import annotations

from typing import Any

DEFAULT_SEED: dict[str, Any] = {
    "users": [{"login": "alice", "name": "Alice"}, {"login": "bob", "name": "Bob"}],
    "repos": [
        {
            "name": "alice/demo",
            "description": "A place to try things",
            "collaborators": {"bob": "write"},
            "labels": [
                {"name": "bug", "color": "d73a4a"},
                {"name": "enhancement", "color": "a2eeef"},
                {"name": "hostler", "color": "0e8a16"},
            ],
            "issues": [
                {
                    "title": "Say hello in the README",
                    "body": "The README should greet its readers.",
                    "user": "alice",
                    "labels": ["enhancement"],
                    "comments": [{"user": "bob", "body": "A short greeting is enough."}],
                }
            ],
        }
    ],
}
