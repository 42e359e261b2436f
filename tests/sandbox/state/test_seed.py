"""Seeds grow whole or not at all, and nothing that they grow breaks the world."""

from __future__ import annotations

import json

import pytest

from hostler.sandbox.state.state_file import dump_state, load_state
from hostler.sandbox.state.world import World

REPO = {"name": "alice/new"}
WRONG = [
    ("repos[0].name", {"repos": [{"name": "alice/demo"}]}),
    ("repos[0].name", {"repos": [{"name": "ALICE/Demo"}]}),
    ("repos[1].name", {"repos": [REPO, {"name": "Alice/New"}]}),
    ("repos[0].name", {"repos": [{"name": "alice/new.git"}]}),
    ("repos[0].default_branch", {"repos": [{**REPO, "default_branch": "../x"}]}),
    ("repos[0].default_branch", {"repos": [{**REPO, "default_branch": ""}]}),
    ("repos[0].collaborators", {"repos": [{**REPO, "collaborators": {"../x": "write"}}]}),
    ("repos[0].labels[0].color", {"repos": [{**REPO, "labels": [{"name": "l", "color": 5}]}]}),
    ("repos[0].labels[0].color", {"repos": [{**REPO, "labels": [{"name": "l", "color": "red"}]}]}),
    ("repos[0].labels[0]", {"repos": [{**REPO, "labels": [" "]}]}),
    ("repos[0].labels[0].name", {"repos": [{**REPO, "labels": [{"name": "l" * 51}]}]}),
    ("repos[0].issues[0].title", {"repos": [{**REPO, "issues": [{"title": ""}]}]}),
    ("repos[0].issues[0].title", {"repos": [{**REPO, "issues": [{"title": "x" * 257}]}]}),
    ("repos[0].issues[0].user", {"repos": [{**REPO, "issues": [{"title": "x", "user": "a b"}]}]}),
    ("users[0].login", {"users": [{"login": ""}]}),
    ("users[0].login", {"users": [{"login": "../x"}]}),
    ("users[0].login", {"users": [{"login": "a--b"}]}),
    ("users[0].type", {"users": [{"login": "zoe", "type": "Alien"}]}),
    ("users[0].members[1]", {"users": [{"login": "zoe", "members": ["bob", ""]}]}),
    ("apps[0].public_key", {"apps": [{"slug": "a", "owner": "alice", "public_key": "x"}]}),
    ("apps[0].slug", {"apps": [{"slug": "A b", "owner": "alice", "public_key": "x"}]}),
]


@pytest.mark.parametrize(("field", "seed"), WRONG)
def test_a_wrong_seed_is_refused_by_its_place_and_grows_nothing(local, field, seed):
    before = dump_state(local.world)
    answer = local.post("/_sandbox/seed", {"users": [], **seed})
    assert (answer.status, answer.json().get("field")) == (400, field)
    assert dump_state(local.world) == before


def test_what_a_seed_grows_can_be_saved_and_loaded(local):
    label = {"name": " Later ", "color": "00FF00", "description": "not now"}
    issue = {"title": "x", "user": "helper[bot]", "labels": ["Later"]}
    seed = {
        "users": [{"login": "acme-co", "type": "Organization", "members": ["alice"]}],
        "repos": [{"name": "acme-co/app", "labels": ["bug", label], "issues": [issue]}],
    }
    assert local.post("/_sandbox/seed", seed).status == 200
    found = local.get("/repos/acme-co/app/issues").json()[0]["labels"][0]
    assert (found["name"], found["color"], found["description"]) == ("Later", "00ff00", "not now")
    other = World()
    load_state(other, json.loads(json.dumps(dump_state(local.world))))
    assert other.truth.everything() == local.world.truth.everything()
