"""GitHub Apps: JWT rules, installation tokens, their hour."""

from __future__ import annotations

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from local_sandbox import START, Local

KEY = rsa.generate_private_key(public_exponent=65_537, key_size=2048)
PUBLIC = (
    KEY.public_key()
    .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    .decode()
)
ISSUES = "/repos/alice/demo/issues"


def signed(local: Local, key=KEY, algorithm: str = "RS256", **claims) -> str:
    now = int(local.world.clock.now())
    return jwt.encode({"iat": now - 60, "exp": now + 540, "iss": "1", **claims}, key, algorithm)


@pytest.fixture
def app(local):
    made = local.seed.app("helper", "alice", PUBLIC)
    local.seed.install(made, "alice")
    return made


def token_of(local) -> str:
    path = "/app/installations/1/access_tokens"
    answer = local.post(path, token=signed(local))
    assert answer.status == 201
    return answer.json()["token"]


def test_an_app_is_known_by_its_jwt(local, app):
    answer = local.get("/app", token=signed(local))
    assert (answer.status, answer.json()["slug"]) == (200, "helper")
    assert local.get("/app", token=signed(local, iss=app.client_id)).status == 200
    assert [item["id"] for item in local.get("/app/installations", token=signed(local)).json()] == [
        1
    ]
    assert local.get("/repos/alice/demo/installation", token=signed(local)).json()["id"] == 1


def test_a_wrong_jwt_is_401(local, app):
    other = rsa.generate_private_key(public_exponent=65_537, key_size=2048)
    wrong = [
        signed(local, key=other),
        signed(local, key="a secret that is long enough for it", algorithm="HS256"),
        signed(local, exp=START - 1),
        signed(local, exp=START + 3600),
        signed(local, iat=START + 300),
        signed(local, iss="77"),
        signed(local, exp=None),
        "a.b.c",
        "..",
    ]
    for token in wrong:
        assert local.get("/app", token=token).status == 401, token


def test_users_are_no_apps_and_apps_are_no_users(local, app):
    assert local.get("/app").status == 401
    assert local.get(ISSUES, token=signed(local)).status == 401


def test_an_installation_token_acts_as_the_bot(local, app):
    token = token_of(local)
    assert token.startswith("ghs_")
    made = local.post(ISSUES, {"title": "x", "labels": ["bug"]}, token=token).json()
    assert made["user"] == made["user"] | {"login": "helper[bot]", "type": "Bot"}
    assert made["labels"][0]["name"] == "bug"
    found = local.get("/installation/repositories", token=token).json()
    assert (found["total_count"], found["repositories"][0]["name"]) == (1, "demo")


def test_an_installation_token_lives_for_an_hour_of_virtual_time(local, app):
    token = token_of(local)
    local.pass_time(3599)
    assert local.get(ISSUES, token=token).status == 200
    local.pass_time(1)
    assert local.get(ISSUES, token=token).status == 401


def test_a_fresh_token_means_fresh_tags_and_a_fresh_budget(local, app):
    first, second = token_of(local), token_of(local)
    tag = local.get(ISSUES, token=first).headers["ETag"]
    assert local.get(ISSUES, token=first, if_none_match=tag).status == 304
    assert local.get(ISSUES, token=second, if_none_match=tag).status == 200


def test_an_installation_reaches_only_its_repositories(local, app):
    secret = local.repo("alice/secret", private=True)
    local.repo("bob/other", private=True)
    path = "/app/installations/1/access_tokens"
    narrow = local.post(path, {"repositories": ["demo"]}, token=signed(local)).json()
    assert [repo["name"] for repo in narrow["repositories"]] == ["demo"]
    assert local.get("/repos/alice/secret", token=narrow["token"]).status == 404
    assert local.get("/repos/alice/secret", token=token_of(local)).status == 200
    assert local.get("/repos/bob/other", token=token_of(local)).status == 404
    wide = {"repository_ids": [secret.id]}
    assert local.post(path, wide, token=signed(local)).json()["repositories"][0]["name"] == "secret"
    assert local.post(path, {"repositories": ["none"]}, token=signed(local)).status == 422


def test_a_revoked_token_is_worthless(local, app):
    token = token_of(local)
    assert local.delete("/installation/token", token=token).status == 204
    assert local.get(ISSUES, token=token).status == 401


def test_a_new_token_brings_no_new_budget_but_new_tags(local, app):
    local.world.settings.change({"installation_limit": 100})
    tags = set()
    for used in ("1", "2", "3"):
        answer = local.get("/repos/alice/demo", token=token_of(local))
        assert answer.headers["X-RateLimit-Used"] == used
        tags.add(answer.headers["ETag"])
    assert len(tags) == 3


def test_users_and_installations_are_told_apart(local, app):
    installed = local.get("/user", token=token_of(local))
    assert (installed.status, installed.json()["message"]) == (
        403,
        "Resource not accessible by integration",
    )
    user = local.get("/installation/repositories")
    assert user.status == 403
    assert "installation access token" in user.json()["message"]
    assert local.get("/installation/repositories", token=token_of(local)).status == 200


def test_an_app_without_a_key_cannot_sign(local):
    made = local.seed.app("ci", "alice")
    for token in (signed(local, iss=str(made.id)), signed(local, key="x" * 32, algorithm="HS256")):
        assert local.get("/app", token=token).status == 401
