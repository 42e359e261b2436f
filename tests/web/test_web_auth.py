"""Authentication of requests, with any headers."""

from __future__ import annotations

import ast
import hmac
import inspect

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.web import auth, middleware, pages
from hostler.web.auth import (
    AuthFailure,
    AuthPolicy,
    BrowserSession,
    RequestCredentials,
    check_request,
    is_allowed_host,
    is_same_origin,
    parse_host_name,
)

TOKEN = "the-token-of-this-house"
LOCKS = AuthPolicy(TOKEN)
OURS = "127.0.0.1:8473"
SESSION = BrowserSession("the-csrf", 0.0, 0.0)
PATHS = st.sampled_from(["/api/v1/status", "/api/v1/tasks", "/metrics", "/", "/logout", "/loginx"])
WORDS = st.text(max_size=30)
HOSTS = st.sampled_from(["127.0.0.1:8473", "localhost", "[::1]:80", "127.0.0.2", "LOCALHOST:1"])
CHANGING = st.sampled_from(["POST", "PUT", "DELETE", "PATCH", "BREW"])
METHODS = CHANGING | st.sampled_from(["GET", "HEAD", "OPTIONS"])


@given(METHODS, PATHS, HOSTS, WORDS, WORDS, WORDS)
def test_requests_without_token_or_session_are_refused(method, path, host, origin, bearer, csrf):
    if bearer != TOKEN:
        assert (
            check_request(RequestCredentials(method, path, host, origin, bearer, csrf), LOCKS, None)
            is not None
        )


@given(METHODS, PATHS, HOSTS)
def test_a_request_with_the_token_is_allowed(method, path, host):
    assert check_request(RequestCredentials(method, path, host, bearer=TOKEN), LOCKS, None) is None


@given(CHANGING, PATHS, HOSTS, WORDS)
def test_a_session_needs_its_csrf_token_for_changes(method, path, host, csrf):
    credentials = RequestCredentials(method, path, host, csrf=csrf)
    assert check_request(credentials, LOCKS, SESSION) is (
        None if csrf == SESSION.csrf else AuthFailure.CSRF
    )


@given(METHODS, PATHS, HOSTS, WORDS)
def test_only_a_token_request_may_set_the_caller_name(method, path, host, name):
    by_session = RequestCredentials(method, path, host, csrf=SESSION.csrf, by=name)
    assert check_request(by_session, LOCKS, SESSION) is (AuthFailure.NAME if name else None)
    by_token = RequestCredentials(method, path, host, bearer=TOKEN, by=name)
    assert check_request(by_token, LOCKS, SESSION) is None
    assert (
        check_request(RequestCredentials(method, path, host, by=name), LOCKS, None)
        is AuthFailure.TOKEN
    )


@given(PATHS, HOSTS)
def test_a_session_reads_without_a_csrf_token(path, host):
    assert check_request(RequestCredentials("GET", path, host), LOCKS, SESSION) is None


@given(
    CHANGING | st.sampled_from(["GET", "HEAD"]),
    st.sampled_from(["/login", "/api/v1/tasks", "/api/v1/live/tasks"]),
    HOSTS,
    st.sampled_from(["", TOKEN]),
)
def test_requests_of_other_origins_are_refused(method, path, host, bearer):
    for origin in ("null", "http://evil.example", f"http://{host}.evil.example", "file://"):
        credentials = RequestCredentials(method, path, host, origin, bearer, SESSION.csrf)
        assert check_request(credentials, LOCKS, SESSION) is AuthFailure.ORIGIN
    own = RequestCredentials(method, path, host, f"http://{host}", bearer, SESSION.csrf)
    assert check_request(own, LOCKS, SESSION) is None


@given(WORDS)
def test_a_session_does_not_make_up_for_a_wrong_token(bearer):
    credentials = RequestCredentials("GET", "/", OURS, bearer=bearer)
    if bearer not in ("", TOKEN):
        assert check_request(credentials, LOCKS, SESSION) is AuthFailure.TOKEN


@given(METHODS, st.text(max_size=40))
def test_only_loopback_host_names_are_allowed(method, host):
    if check_request(RequestCredentials(method, "/login", host), LOCKS, None) is None:
        name = parse_host_name(host)
        assert name == "localhost" or name == "::1" or name.startswith(("127.", "0:", "::"))


@pytest.mark.parametrize(
    ("host", "near", "wide"),
    [
        ("localhost:8473", True, True),
        ("[::1]", True, True),
        ("127.8.9.1", True, True),
        ("192.168.1.5:8473", False, True),
        ("[fe80::1]:1", False, True),
        ("stable.example", False, True),
        ("STABLE.example:443", False, True),
        ("evil.example", False, False),
        ("localhost.evil.example", False, False),
        ("127.0.0.1.evil.example", False, False),
        ("", False, False),
        (":80", False, False),
        ("[::1", False, False),
        ("[::1]x", False, False),
        ("localhost:x", False, False),
        ("localhost:8473:1", False, False),
        ("a@localhost", False, False),
    ],
)
def test_hosts(host, near, wide):
    assert is_allowed_host(host, LOCKS) is near
    names = frozenset({"stable.example"})
    assert is_allowed_host(host, AuthPolicy(TOKEN, allow_remote=True, names=names)) is wide


def test_configured_host_names_count_only_with_remote_access():
    assert not is_allowed_host(
        "stable.example", AuthPolicy(TOKEN, names=frozenset({"stable.example"}))
    )


@pytest.mark.parametrize(
    ("origin", "ours"),
    [
        ("http://localhost:1", True),
        ("https://LOCALHOST:1", True),
        ("http://localhost", False),
        ("http://localhost:2", False),
        ("http://localhost:1/", False),
        ("ftp://localhost:1", False),
        ("localhost:1", False),
        ("null", False),
    ],
)
def test_origins(origin, ours):
    assert is_same_origin(origin, "localhost:1") is ours


@pytest.mark.parametrize("path", ["/login", "/api/v1/health", "/api/v1/ready", "/static/x.css"])
def test_public_paths_still_require_an_allowed_host(path):
    assert check_request(RequestCredentials("GET", path, OURS), LOCKS, None) is None
    assert (
        check_request(RequestCredentials("GET", path, "evil.example"), LOCKS, None)
        is AuthFailure.HOST
    )


@pytest.fixture
def compared(monkeypatch):
    """Record the pairs that are compared in constant time."""
    found = []

    def compare(given, wanted):
        found.append((given, wanted))
        return hmac.compare_digest(given, wanted)

    assert auth.secrets.compare_digest is hmac.compare_digest
    monkeypatch.setattr(auth.secrets, "compare_digest", compare)
    return found


@pytest.mark.parametrize("given", ["", TOKEN, TOKEN[:-1], f"{TOKEN}x", "é"])
def test_tokens_are_compared_in_constant_time_in_one_function(compared, given):
    """Every guess is compared by the constant-time function."""
    pair = (given.encode(), TOKEN.encode())
    check_request(RequestCredentials("GET", "/api/v1/status", OURS, bearer=given), LOCKS, None)
    assert compared == ([pair] if given else [])
    compared.clear()
    check_request(RequestCredentials("POST", "/api/v1/tasks", OURS, csrf=given), LOCKS, SESSION)
    assert compared == [(given.encode(), SESSION.csrf.encode())]
    for source in (auth, middleware, pages):
        assert find_other_secret_comparisons(source) == []


def find_other_secret_comparisons(module) -> list[str]:
    """Return source lines that compare a token without constant time."""
    tree = ast.parse(inspect.getsource(module))
    names = {"token", "csrf", "bearer"}
    return [
        ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare)
        and any(
            getattr(part, "attr", getattr(part, "id", "")) in names
            for part in (node.left, *node.comparators)
        )
    ]


def test_logins_are_compared_in_constant_time(api_home, compared):
    nobody = api_home.client(Host="127.0.0.1:8473")
    assert nobody.post("/login", data={"token": "guess"}).status_code == 401
    assert [given for given, _ in compared] == [b"guess"]
