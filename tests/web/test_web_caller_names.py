"""Caller names, and commands that name tasks as users do."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from web_fixture import BEARER, ApiClient

from hostler.bus.bus import Bus, BusLocation
from hostler.store.operator import all_pauses
from hostler.store.tasks import TaskState, require_task
from hostler.telemetry import names
from hostler.telemetry.metrics import metrics
from hostler.web.discovery import build_fingerprint
from hostler.web.middleware import CALLER_HEADER, SESSION_COOKIE

API = "/api/v1"


def asking(api_home, name: str) -> ApiClient:
    """Return a client with the token and a caller name."""
    return api_home.client(**BEARER, **{CALLER_HEADER: quote(name)})


def browser(api_home, **more: str) -> ApiClient:
    """Return a client with a browser session."""
    opened = api_home.sessions.open()
    found = api_home.sessions.find(opened)
    return api_home.client(
        Cookie=f"{SESSION_COOKIE}={opened}", **{"X-CSRF-Token": found.csrf}, **more
    )


def task_now(api_home, task):
    with api_home.store.read() as tx:
        return require_task(tx, task.id)


@pytest.mark.parametrize("name", ["bob", "Zoë Müller", "uid 1000", "a/b%20c"])
def test_token_requests_can_set_the_caller_name(api_home, name):
    task = api_home.put()
    client = asking(api_home, name)
    assert client.get(f"{API}/session").json()["by"] == name
    assert client.post(f"{API}/tasks/{task.id}/stop").status_code == 200
    assert task_now(api_home, task).reason == f"Stopped by {name}."
    assert client.post(f"{API}/pause").json()["by"] == name
    assert api_home.client().get(f"{API}/session").json()["by"] == "ann"


def test_a_session_acts_in_the_name_of_the_token_owner(api_home):
    task = api_home.put()
    refused = browser(api_home, **{CALLER_HEADER: "bob"}).post(f"{API}/pause")
    assert (refused.status_code, refused.json()["error"]["kind"]) == (403, "name_not_allowed")
    with api_home.store.read() as tx:
        assert all_pauses(tx) == {}
    assert browser(api_home).post(f"{API}/tasks/{task.id}/stop").status_code == 200
    assert task_now(api_home, task).reason == "Stopped by ann."


@pytest.mark.parametrize("name", ["x" * 101, "a\nb", "\x1b[31m"])
def test_invalid_caller_names_are_refused(api_home, name):
    refused = asking(api_home, name).post(f"{API}/pause")
    assert (refused.status_code, refused.json()["error"]["kind"]) == (422, "invalid_value")
    with api_home.store.read() as tx:
        assert all_pauses(tx) == {}


def test_public_paths_ignore_the_caller_name(api_home):
    nobody = api_home.client(**{CALLER_HEADER: quote("x" * 101)})
    assert nobody.get(f"{API}/health").status_code == 200
    assert nobody.get(f"{API}/ready").status_code == 503


def test_a_batch_of_tasks_changes_all_or_none(api_home, client):
    first, second = api_home.put("barn"), api_home.put("stable", state=TaskState.DONE)
    refused = client.post(f"{API}/tasks/stop", json={"tasks": [first.id, second.id]})
    assert refused.status_code == 409
    assert task_now(api_home, first).state is TaskState.QUEUED
    both = [first.id, api_home.put("field").id]
    for verb, state in (("stop", "stopped"), ("resume", "queued"), ("cancel", "stopped")):
        asked = {"tasks": both, "why": "wrong  branch"}
        changed = client.post(f"{API}/tasks/{verb}", json=asked).json()["changed"]
        assert [(one["id"], one["state"]) for one in changed] == [(id, state) for id in both]
        assert changed[0]["reason"].endswith("by ann: wrong branch")
    assert client.post(f"{API}/tasks/retry", json={"tasks": both}).status_code == 200


def test_a_question_is_answered_by_an_id_prefix(api_home, client):
    task = api_home.put("barn", state=TaskState.NEEDS_INPUT, question="Which?")
    asked = {"task": task.id[:-2], "text": "Red"}
    (changed,) = client.post(f"{API}/tasks/answer", json=asked).json()["changed"]
    assert (changed["id"], changed["state"]) == (task.id, "queued")


def test_a_message_is_posted_to_the_bus_of_a_task_folder(api_home, client):
    said = {"project": "barn", "task": "by-nobody", "text": "Hello", "type": "FACT"}
    missing = client.post(f"{API}/bus", json=said)
    assert (missing.status_code, missing.json()["error"]["kind"]) == (404, "bus_missing")
    made = asking(api_home, "bob").post(f"{API}/bus", json={**said, "create": True})
    assert made.status_code == 201 and made.json()["body"] == "Hello"
    place = BusLocation(api_home.home, "barn", "by-nobody")
    (kept,) = Bus(place.path).tail(9)
    assert (kept.body, kept.sender.name) == ("Hello", "bob")
    for wrong in ({"project": ".."}, {"text": " "}, {"thread": "x"}, {"project": "a.lock"}):
        assert 400 <= client.post(f"{API}/bus", json={**said, **wrong}).status_code < 500


def test_a_pool_is_parked_until_a_time(api_home, client):
    ends = "2099-05-01T12:00Z"
    assert client.post(f"{API}/pools/openai/park", json={"until": "soon"}).status_code == 422
    closed = client.post(f"{API}/pools/openai/park", json={"until": ends, "why": "keys"}).json()
    # A pool is parked for at most a month.
    assert closed["parked"]["until"] and closed["parked"]["why"] == "keys"


def test_a_fingerprint_depends_on_version_home_and_settings(api_home, client, tmp_path):
    own = client.get(f"{API}/fingerprint").json()["fingerprint"]
    assert own == build_fingerprint(api_home.home, api_home.current_settings)
    link = tmp_path / "link"
    link.symlink_to(api_home.home)
    assert build_fingerprint(link, api_home.current_settings) == own
    web = api_home.current_settings.web.model_copy(update={"port": 9})
    others = [
        build_fingerprint(tmp_path, api_home.current_settings),
        build_fingerprint(api_home.home, api_home.current_settings, "9.9.9"),
        build_fingerprint(api_home.home, api_home.current_settings.model_copy(update={"web": web})),
    ]
    assert len({own, *others}) == 4


def test_changes_are_counted_by_authentication(api_home):
    def counted(door: str, status: str) -> float:
        return metrics.value(names.API_CHANGES, auth=door, status=status)

    before = [counted("token", "200"), counted("session", "200"), counted("token", "404")]
    api_home.client().post(f"{API}/pause")
    browser(api_home).post(f"{API}/resume")
    api_home.client().post(f"{API}/tasks/stop", json={"tasks": ["nobody"]})
    api_home.client().get(f"{API}/status")
    after = [counted("token", "200"), counted("session", "200"), counted("token", "404")]
    assert [now - then for now, then in zip(after, before, strict=True)] == [1, 1, 1]
