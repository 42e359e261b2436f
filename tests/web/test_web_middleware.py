"""Refused requests have the same error body and change nothing."""

from __future__ import annotations

import asyncio

import pytest
from web_fixture import BASE, BEARER, TOKEN, ApiClient

from hostler.errors import HostlerError, StoreBusy, StoreConflict
from hostler.store.operator import all_pauses
from hostler.web.auth import AuthPolicy
from hostler.web.errors import STATUS_BY_ERROR, get_error_kind, get_status
from hostler.web.middleware import MAX_BODY_BYTES, SESSION_COOKIE, AuthMiddleware
from hostler.web.pages import safe_redirect_path

API = "/api/v1"


def fault(answer, status, kind):
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert (
        set(error) == {"what", "safe", "remedy", "kind", "exit_code"}
        and error["what"]
        and error["safe"]
    )
    assert error["kind"] == kind
    assert TOKEN not in answer.text and "Traceback" not in answer.text


ROUTES = ["status", "tasks", "config", "openapi.json", "live/tasks", "nothing", "../../etc/passwd"]


@pytest.mark.parametrize("path", [*(f"{API}/{one}" for one in ROUTES), "/metrics", "/", "/x"])
def test_without_the_token_every_route_is_refused(api_home, path):
    nobody, wrong = api_home.client(X="y"), api_home.client(Authorization="Bearer wrong")
    for client in (nobody, wrong, api_home.client(Authorization=f"Basic {TOKEN}")):
        answer = client.get(path)
        fault(answer, 401, "invalid_token")
        assert answer.headers["www-authenticate"].startswith("Bearer")


def test_a_token_in_the_url_is_ignored(api_home):
    for name in ("token", "access_token", "Authorization"):
        fault(api_home.client(X="y").get(f"{API}/status?{name}={TOKEN}"), 401, "invalid_token")


def test_other_hosts_are_refused_even_with_the_token(api_home):
    for host in ("evil.example", "localhost.evil.example:8473", "192.168.0.9"):
        answer = api_home.client(**BEARER, Host=host).get(f"{API}/health")
        fault(answer, 421, "host_not_allowed")


def test_other_origins_are_refused_even_with_the_token(api_home):
    task = api_home.put()
    for origin in ("http://evil.example", "null", f"{BASE}.evil.example"):
        client = api_home.client(**BEARER, Origin=origin)
        fault(client.post(f"{API}/tasks/{task.id}/stop"), 403, "origin_not_allowed")
    own = api_home.client(**BEARER, Origin=BASE)
    assert own.post(f"{API}/tasks/{task.id}/stop").status_code == 200


BAD_IDS = ["..", "%2e%2e", "..%2f..", ".hidden", "a..b", "a%00b", "a%0ab", "x" * 101, "a%20b", "-a"]


PLACES = ["tasks/{}", "tasks/{}/why", "tasks/{}/bus", "runs/{}", "runs/{}/output", "live/runs/{}"]


@pytest.mark.parametrize("name", BAD_IDS)
def test_invalid_names_are_refused(client, name):
    for path in PLACES:
        answer = client.get(f"{API}/{path.format(name)}")
        assert answer.status_code in (404, 405, 422), answer.text
        fault(answer, answer.status_code, answer.json()["error"]["kind"])


def test_unknown_names_are_not_found(client):
    fault(client.get(f"{API}/tasks/nobody-at-all"), 404, "no_such_task")
    fault(client.post(f"{API}/tasks/nobody-at-all/stop"), 404, "no_such_task")
    fault(client.get(f"{API}/runs/nobody"), 404, "resource_not_found")
    fault(client.get(f"{API}/nothing/here"), 404, "not_found")
    fault(client.request("DELETE", f"{API}/tasks"), 405, "method_not_allowed")
    fault(client.get(f"{API}/live/runs/nobody"), 404, "resource_not_found")


@pytest.mark.parametrize(
    "params",
    [{"limit": 0}, {"limit": 201}, {"state": "asleep"}, {"before": "../x"}, {"limit": "x"}],
)
def test_invalid_requests_are_refused(client, params):
    fault(client.get(f"{API}/tasks", params=params), 422, "bad_request")


def test_bodies_that_are_not_json_are_refused(client):
    headers = {"Content-Type": "application/json"}
    for body in (b"{", b"\xff\xfe", b"[" * 5000, b"null"):
        answer = client.post(f"{API}/tasks", content=body, headers=headers)
        assert answer.status_code in (400, 422)
        fault(answer, answer.status_code, "bad_request")


def test_validation_errors_do_not_repeat_the_input(client):
    answer = client.post(f"{API}/tasks", json={"prompt": 5, "repo": "a-secret-in-a-wrong-place"})
    fault(answer, 422, "bad_request")
    assert "a-secret" not in answer.text


def test_huge_bodies_are_refused_by_announced_and_actual_size(client):
    fault(client.post(f"{API}/tasks", content=b"x" * (MAX_BODY_BYTES + 1)), 413, "body_too_large")

    async def endless():
        for _ in range(MAX_BODY_BYTES // 65_536 + 2):
            yield b"x" * 65_536

    fault(client.post(f"{API}/tasks", content=endless()), 413, "body_too_large")
    for length in ("-1", "x", "9" * 30):
        answer = client.post(f"{API}/tasks", content=b"{}", headers={"Content-Length": length})
        fault(answer, 400, "bad_content_length")


def test_a_missing_body_times_out(api_home):
    guard = AuthMiddleware(api_home.app, AuthPolicy(TOKEN), api_home.sessions, body_seconds=0.01)

    async def never():
        await asyncio.Event().wait()
        yield b""

    fault(ApiClient(guard, BEARER).post(f"{API}/tasks", content=never()), 408, "request_timeout")


def test_an_incomplete_body_executes_nothing(api_home):
    sent: list[object] = []
    pieces = [
        {"type": "http.request", "body": b"", "more_body": True},
        {"type": "http.disconnect"},
    ]

    async def receive():
        return pieces.pop(0)

    async def send(message):
        sent.append(message)

    headers = [(b"host", b"localhost"), (b"authorization", f"Bearer {TOKEN}".encode())]
    scope = {"type": "http", "method": "POST", "path": f"{API}/pause", "headers": headers}
    scope |= {"query_string": b"", "server": ("localhost", 80), "scheme": "http"}
    asyncio.run(api_home.app(scope, receive, send))
    with api_home.store.read() as tx:
        assert (sent, all_pauses(tx)) == ([], {})


def test_an_internal_error_is_one_response_and_one_log_line(api_home, client, monkeypatch):
    def broken(_self):
        raise ZeroDivisionError("secret insides")

    monkeypatch.setattr("hostler.service.snapshot.snapshot.SnapshotReader.read", broken)
    answer = client.get(f"{API}/status")
    fault(answer, 500, "internal_error")
    assert "insides" not in answer.text


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (StoreBusy("somebody", 5.0), 503, "store_busy"),
        (StoreConflict("moved"), 409, "store_conflict"),
        (HostlerError("no"), 400, "hostler_error"),
    ],
)
def test_errors_have_their_status(error, status, kind):
    assert (get_status(error), get_error_kind(error)) == (status, kind)


def test_every_entry_of_the_status_table_is_reachable():
    for place, (kind, _) in enumerate(STATUS_BY_ERROR):
        assert not any(issubclass(kind, earlier) for earlier, _ in STATUS_BY_ERROR[:place])


# -- sessions of browsers ----------------------------------------------------------------------


def log_in(api_home, token=TOKEN, **headers):
    return api_home.client(**({"X": "y"} | headers)).post(
        "/login", data={"token": token, "next": "/x"}
    )


def test_a_browser_logs_in_works_and_logs_out(api_home):
    task = api_home.put()
    entered = log_in(api_home, Origin=BASE)
    assert (entered.status_code, entered.headers["location"]) == (303, "/x")
    cookie = entered.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie and "Path=/" in cookie
    assert TOKEN not in cookie
    assert "Secure" not in cookie
    proxied = log_in(api_home, Origin=BASE.replace("http", "https"))
    assert "Secure" in proxied.headers["set-cookie"]
    name = cookie.partition(";")[0]
    assert "<title>Hostler</title>" in api_home.client(Cookie=name).get("/").text
    browser = api_home.client(Cookie=name)
    csrf = browser.get(f"{API}/session").json()["csrf"]
    fault(browser.post(f"{API}/tasks/{task.id}/stop"), 403, "invalid_csrf_token")
    wrong = api_home.client(Cookie=name, **{"X-CSRF-Token": "wrong"})
    fault(wrong.post(f"{API}/tasks/{task.id}/stop"), 403, "invalid_csrf_token")
    armed = api_home.client(Cookie=name, **{"X-CSRF-Token": csrf})
    assert armed.post(f"{API}/tasks/{task.id}/stop").status_code == 200
    foreign = api_home.client(Cookie=name, Origin="http://evil.example", **{"X-CSRF-Token": csrf})
    fault(foreign.post(f"{API}/tasks/{task.id}/retry"), 403, "origin_not_allowed")
    left = armed.post("/logout")
    assert (left.status_code, left.headers["location"]) == (303, "/login")
    fault(browser.get(f"{API}/status"), 401, "invalid_token")


def test_a_wrong_token_opens_no_session(api_home):
    for token in ("", "wrong", f"{TOKEN} x", "é"):
        answer = log_in(api_home, token)
        assert answer.status_code == 401 and "set-cookie" not in answer.headers
        assert "Wrong token" in answer.text
    assert log_in(api_home, Origin="http://evil.example").status_code == 403
    many = api_home.client(X="y").post("/login", content=b"a=b&" * 5000)
    assert many.status_code == 401


def test_unknown_sessions_are_refused(api_home):
    for cookie in (
        f"{SESSION_COOKIE}=x",
        f"{SESSION_COOKIE}=",
        "; ; =",
        '"',
        f"{SESSION_COOKIE}={'x' * 5000}",
    ):
        fault(api_home.client(Cookie=cookie).get(f"{API}/status"), 401, "invalid_token")


@pytest.mark.parametrize(
    "other", ['pref={"a": 1}', "foo[bar]=1", "a=b c", "flag", "a=\xe9", "=", ""]
)
def test_invalid_cookies_of_other_ports_are_ignored(api_home, other):
    """Browsers send the cookies of all ports of a host."""
    ours = log_in(api_home, Origin=BASE).headers["set-cookie"].partition(";")[0]
    for cookie in (f"{other}; {ours}", f"{ours}; {other}"):
        browser = api_home.client(Cookie=cookie.encode("latin-1"))
        assert browser.get(f"{API}/status").status_code == 200


def test_browsers_are_redirected_to_the_login(api_home):
    answer = api_home.client(Accept="text/html").get("/work/x y")
    assert (answer.status_code, answer.headers["location"]) == (303, "/login?next=/work/x%20y")
    page = api_home.client(Accept="text/html").get("/login?next=/work")
    assert page.status_code == 200 and 'value="/work"' in page.text
    assert api_home.client(X="y").get("/static/css/login.css").status_code == 200


@pytest.mark.parametrize(
    "then",
    [
        "//evil.example",
        "http://evil.example",
        "/\\evil",
        "javascript:x",
        '/"><script>',
        "/login",
        "",
    ],
)
def test_the_login_redirects_only_to_this_server(api_home, then):
    page = api_home.client(X="y").get("/login", params={"next": then})
    assert "evil" not in page.text and "<script>" not in page.text
    assert safe_redirect_path(then) in ("/", then) and not safe_redirect_path(then).startswith(
        ("//", "/\\", "http", "java")
    )


def test_every_response_has_the_security_headers(api_home, client):
    answers = [
        client.get(f"{API}/status"),
        client.get(f"{API}/nothing"),
        api_home.client(X="y").get(f"{API}/status"),
        api_home.client(X="y").get("/login"),
        client.post(f"{API}/tasks", content=b"x" * (MAX_BODY_BYTES + 1)),
    ]
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["cache-control"] == "no-store"
