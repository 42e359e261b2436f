"""Refusals: every one in the same shape, and nothing changed."""

from __future__ import annotations

import asyncio

import pytest
from web_house import BASE, BEARER, TOKEN, Client

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
def test_without_the_token_nothing_answers(house, path):
    nobody, wrong = house.client(X="y"), house.client(Authorization="Bearer wrong")
    for client in (nobody, wrong, house.client(Authorization=f"Basic {TOKEN}")):
        answer = client.get(path)
        fault(answer, 401, "not_known")
        assert answer.headers["www-authenticate"].startswith("Bearer")


def test_the_token_is_not_taken_from_a_url(house):
    for name in ("token", "access_token", "Authorization"):
        fault(house.client(X="y").get(f"{API}/status?{name}={TOKEN}"), 401, "not_known")


def test_foreign_hosts_get_nothing_even_with_the_token(house):
    for host in ("evil.example", "localhost.evil.example:8473", "192.168.0.9"):
        answer = house.client(**BEARER, Host=host).get(f"{API}/health")
        fault(answer, 421, "foreign_host")


def test_foreign_origins_change_nothing_even_with_the_token(house):
    task = house.put()
    for origin in ("http://evil.example", "null", f"{BASE}.evil.example"):
        client = house.client(**BEARER, Origin=origin)
        fault(client.post(f"{API}/tasks/{task.id}/stop"), 403, "foreign_origin")
    own = house.client(**BEARER, Origin=BASE)
    assert own.post(f"{API}/tasks/{task.id}/stop").status_code == 200


BAD_IDS = ["..", "%2e%2e", "..%2f..", ".hidden", "a..b", "a%00b", "a%0ab", "x" * 101, "a%20b", "-a"]


PLACES = ["tasks/{}", "tasks/{}/why", "tasks/{}/bus", "runs/{}", "runs/{}/output", "live/runs/{}"]


@pytest.mark.parametrize("name", BAD_IDS)
def test_names_that_are_none(client, name):
    for path in PLACES:
        answer = client.get(f"{API}/{path.format(name)}")
        assert answer.status_code in (404, 405, 422), answer.text
        fault(answer, answer.status_code, answer.json()["error"]["kind"])


def test_names_that_nobody_has(client):
    fault(client.get(f"{API}/tasks/nobody-at-all"), 404, "no_such_task")
    fault(client.post(f"{API}/tasks/nobody-at-all/stop"), 404, "no_such_task")
    fault(client.get(f"{API}/runs/nobody"), 404, "not_here")
    fault(client.get(f"{API}/nothing/here"), 404, "not_found")
    fault(client.request("DELETE", f"{API}/tasks"), 405, "not_allowed")
    fault(client.get(f"{API}/live/runs/nobody"), 404, "not_here")


@pytest.mark.parametrize(
    "params",
    [{"limit": 0}, {"limit": 201}, {"state": "asleep"}, {"before": "../x"}, {"limit": "x"}],
)
def test_questions_that_are_not_understood(client, params):
    fault(client.get(f"{API}/tasks", params=params), 422, "not_understood")


def test_bodies_that_are_no_json(client):
    headers = {"Content-Type": "application/json"}
    for body in (b"{", b"\xff\xfe", b"[" * 5000, b"null"):
        answer = client.post(f"{API}/tasks", content=body, headers=headers)
        assert answer.status_code in (400, 422)
        fault(answer, answer.status_code, "not_understood")


def test_what_was_sent_is_not_said_back(client):
    answer = client.post(f"{API}/tasks", json={"prompt": 5, "repo": "a-secret-in-a-wrong-place"})
    fault(answer, 422, "not_understood")
    assert "a-secret" not in answer.text


def test_huge_bodies_are_refused_by_what_they_say_and_by_what_they_are(client):
    fault(client.post(f"{API}/tasks", content=b"x" * (MAX_BODY_BYTES + 1)), 413, "too_large")

    async def endless():
        for _ in range(MAX_BODY_BYTES // 65_536 + 2):
            yield b"x" * 65_536

    fault(client.post(f"{API}/tasks", content=endless()), 413, "too_large")
    for length in ("-1", "x", "9" * 30):
        answer = client.post(f"{API}/tasks", content=b"{}", headers={"Content-Length": length})
        fault(answer, 400, "bad_length")


def test_a_body_that_does_not_come_is_not_waited_for(house):
    guard = AuthMiddleware(house.app, AuthPolicy(TOKEN), house.sessions, body_seconds=0.01)

    async def never():
        await asyncio.Event().wait()
        yield b""

    fault(Client(guard, BEARER).post(f"{API}/tasks", content=never()), 408, "too_slow")


def test_half_a_command_is_none(house):
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
    asyncio.run(house.app(scope, receive, send))
    with house.store.read() as tx:
        assert (sent, all_pauses(tx)) == ([], {})


def test_a_defect_of_ours_is_one_answer_and_one_line_of_the_log(house, client, monkeypatch):
    def broken(_self):
        raise ZeroDivisionError("secret insides")

    monkeypatch.setattr("hostler.service.snapshot.snapshot.SnapshotReader.look", broken)
    answer = client.get(f"{API}/status")
    fault(answer, 500, "defect")
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


def test_no_row_of_the_table_hides_a_later_one():
    for place, (kind, _) in enumerate(STATUS_BY_ERROR):
        assert not any(issubclass(kind, earlier) for earlier, _ in STATUS_BY_ERROR[:place])


# -- sessions of browsers ----------------------------------------------------------------------


def log_in(house, token=TOKEN, **headers):
    return house.client(**({"X": "y"} | headers)).post(
        "/login", data={"token": token, "next": "/x"}
    )


def test_a_browser_logs_in_works_and_logs_out(house):
    task = house.put()
    entered = log_in(house, Origin=BASE)
    assert (entered.status_code, entered.headers["location"]) == (303, "/x")
    cookie = entered.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie and "Path=/" in cookie
    assert TOKEN not in cookie
    assert "Secure" not in cookie
    proxied = log_in(house, Origin=BASE.replace("http", "https"))
    assert "Secure" in proxied.headers["set-cookie"]
    name = cookie.partition(";")[0]
    assert "<title>Hostler</title>" in house.client(Cookie=name).get("/").text
    browser = house.client(Cookie=name)
    csrf = browser.get(f"{API}/session").json()["csrf"]
    fault(browser.post(f"{API}/tasks/{task.id}/stop"), 403, "no_csrf")
    wrong = house.client(Cookie=name, **{"X-CSRF-Token": "wrong"})
    fault(wrong.post(f"{API}/tasks/{task.id}/stop"), 403, "no_csrf")
    armed = house.client(Cookie=name, **{"X-CSRF-Token": csrf})
    assert armed.post(f"{API}/tasks/{task.id}/stop").status_code == 200
    foreign = house.client(Cookie=name, Origin="http://evil.example", **{"X-CSRF-Token": csrf})
    fault(foreign.post(f"{API}/tasks/{task.id}/retry"), 403, "foreign_origin")
    left = armed.post("/logout")
    assert (left.status_code, left.headers["location"]) == (303, "/login")
    fault(browser.get(f"{API}/status"), 401, "not_known")


def test_a_wrong_token_opens_nothing(house):
    for token in ("", "wrong", f"{TOKEN} x", "é"):
        answer = log_in(house, token)
        assert answer.status_code == 401 and "set-cookie" not in answer.headers
        assert "not the token" in answer.text
    assert log_in(house, Origin="http://evil.example").status_code == 403
    many = house.client(X="y").post("/login", content=b"a=b&" * 5000)
    assert many.status_code == 401


def test_sessions_that_nobody_opened(house):
    for cookie in (
        f"{SESSION_COOKIE}=x",
        f"{SESSION_COOKIE}=",
        "; ; =",
        '"',
        f"{SESSION_COOKIE}={'x' * 5000}",
    ):
        fault(house.client(Cookie=cookie).get(f"{API}/status"), 401, "not_known")


@pytest.mark.parametrize(
    "other", ['pref={"a": 1}', "foo[bar]=1", "a=b c", "flag", "a=\xe9", "=", ""]
)
def test_cookies_of_others_on_this_host_do_no_harm(house, other):
    """Those of all ports of a host come together."""
    ours = log_in(house, Origin=BASE).headers["set-cookie"].partition(";")[0]
    for cookie in (f"{other}; {ours}", f"{ours}; {other}"):
        browser = house.client(Cookie=cookie.encode("latin-1"))
        assert browser.get(f"{API}/status").status_code == 200


def test_people_are_shown_to_the_login(house):
    answer = house.client(Accept="text/html").get("/work/x y")
    assert (answer.status_code, answer.headers["location"]) == (303, "/login?next=/work/x%20y")
    page = house.client(Accept="text/html").get("/login?next=/work")
    assert page.status_code == 200 and 'value="/work"' in page.text
    assert house.client(X="y").get("/static/css/login.css").status_code == 200


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
def test_the_login_leads_nowhere_else(house, then):
    page = house.client(X="y").get("/login", params={"next": then})
    assert "evil" not in page.text and "<script>" not in page.text
    assert safe_redirect_path(then) in ("/", then) and not safe_redirect_path(then).startswith(
        ("//", "/\\", "http", "java")
    )


def test_every_answer_has_the_headers_of_safety(house, client):
    answers = [
        client.get(f"{API}/status"),
        client.get(f"{API}/nothing"),
        house.client(X="y").get(f"{API}/status"),
        house.client(X="y").get("/login"),
        client.post(f"{API}/tasks", content=b"x" * (MAX_BODY_BYTES + 1)),
    ]
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["cache-control"] == "no-store"
