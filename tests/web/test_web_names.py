"""Who is said to have done something, and commands for tasks by the names that people use."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from web_house import BEARER, Client

from hostler.bus.bus import Bus, BusLocation
from hostler.store.operator import all_pauses
from hostler.store.tasks import TaskState, require_task
from hostler.telemetry import names
from hostler.telemetry.metrics import metrics
from hostler.web.discovery import build_fingerprint
from hostler.web.middleware import CALLER_HEADER, SESSION_COOKIE

API = "/api/v1"


def asking(house, name: str) -> Client:
    """Somebody with the token who says a name."""
    return house.client(**BEARER, **{CALLER_HEADER: quote(name)})


def browser(house, **more: str) -> Client:
    """Somebody with a session."""
    opened = house.sessions.open()
    found = house.sessions.find(opened)
    return house.client(Cookie=f"{SESSION_COOKIE}={opened}", **{"X-CSRF-Token": found.csrf}, **more)


def task_now(house, task):
    with house.store.read() as tx:
        return require_task(tx, task.id)


@pytest.mark.parametrize("name", ["bob", "Zoë Müller", "uid 1000", "a/b%20c"])
def test_whoever_has_the_token_says_whose_name_it_is(house, name):
    task = house.put()
    client = asking(house, name)
    assert client.get(f"{API}/session").json()["by"] == name
    assert client.post(f"{API}/tasks/{task.id}/stop").status_code == 200
    assert task_now(house, task).reason == f"Stopped by {name}."
    assert client.post(f"{API}/pause").json()["by"] == name
    assert house.client().get(f"{API}/session").json()["by"] == "ann"


def test_a_session_acts_for_whoever_holds_the_token_and_says_no_other_name(house):
    task = house.put()
    refused = browser(house, **{CALLER_HEADER: "bob"}).post(f"{API}/pause")
    assert (refused.status_code, refused.json()["error"]["kind"]) == (403, "no_name")
    with house.store.read() as tx:
        assert all_pauses(tx) == {}
    assert browser(house).post(f"{API}/tasks/{task.id}/stop").status_code == 200
    assert task_now(house, task).reason == "Stopped by ann."


@pytest.mark.parametrize("name", ["x" * 101, "a\nb", "\x1b[31m"])
def test_names_that_nobody_has_change_nothing(house, name):
    refused = asking(house, name).post(f"{API}/pause")
    assert (refused.status_code, refused.json()["error"]["kind"]) == (422, "unusable")
    with house.store.read() as tx:
        assert all_pauses(tx) == {}


def test_where_everybody_may_come_no_name_counts(house):
    nobody = house.client(**{CALLER_HEADER: quote("x" * 101)})
    assert nobody.get(f"{API}/health").status_code == 200
    assert nobody.get(f"{API}/ready").status_code == 503


def test_several_tasks_are_changed_together_or_not_at_all(house, client):
    first, second = house.put("barn"), house.put("stable", state=TaskState.DONE)
    refused = client.post(f"{API}/tasks/stop", json={"tasks": [first.id, second.id]})
    assert refused.status_code == 409
    assert task_now(house, first).state is TaskState.QUEUED
    both = [first.id, house.put("field").id]
    for verb, state in (("stop", "stopped"), ("resume", "queued"), ("cancel", "stopped")):
        asked = {"tasks": both, "why": "wrong  branch"}
        changed = client.post(f"{API}/tasks/{verb}", json=asked).json()["changed"]
        assert [(one["id"], one["state"]) for one in changed] == [(id, state) for id in both]
        assert changed[0]["reason"].endswith("by ann: wrong branch")
    assert client.post(f"{API}/tasks/retry", json={"tasks": both}).status_code == 200


def test_a_question_is_answered_by_the_beginning_of_an_id(house, client):
    task = house.put("barn", state=TaskState.NEEDS_INPUT, question="Which?")
    asked = {"task": task.id[:-2], "text": "Red"}
    (changed,) = client.post(f"{API}/tasks/answer", json=asked).json()["changed"]
    assert (changed["id"], changed["state"]) == (task.id, "queued")


def test_a_message_goes_to_the_bus_of_a_folder(house, client):
    said = {"project": "barn", "task": "by-nobody", "text": "Hello", "type": "FACT"}
    missing = client.post(f"{API}/bus", json=said)
    assert (missing.status_code, missing.json()["error"]["kind"]) == (404, "bus_missing")
    made = asking(house, "bob").post(f"{API}/bus", json={**said, "create": True})
    assert made.status_code == 201 and made.json()["body"] == "Hello"
    place = BusLocation(house.home, "barn", "by-nobody")
    (kept,) = Bus(place.path).tail(9)
    assert (kept.body, kept.sender.name) == ("Hello", "bob")
    for wrong in ({"project": ".."}, {"text": " "}, {"thread": "x"}, {"project": "a.lock"}):
        assert 400 <= client.post(f"{API}/bus", json={**said, **wrong}).status_code < 500


def test_a_pool_is_closed_until_a_moment(house, client):
    ends = "2099-05-01T12:00Z"
    assert client.post(f"{API}/pools/openai/park", json={"until": "soon"}).status_code == 422
    closed = client.post(f"{API}/pools/openai/park", json={"until": ends, "why": "keys"}).json()
    # No word closes a pool for longer than a month.
    assert closed["parked"]["until"] and closed["parked"]["why"] == "keys"


def test_a_likeness_is_of_version_home_and_settings(house, client, tmp_path):
    own = client.get(f"{API}/likeness").json()["likeness"]
    assert own == build_fingerprint(house.home, house.now_set)
    link = tmp_path / "link"
    link.symlink_to(house.home)
    assert build_fingerprint(link, house.now_set) == own
    web = house.now_set.web.model_copy(update={"port": 9})
    others = [
        build_fingerprint(tmp_path, house.now_set),
        build_fingerprint(house.home, house.now_set, "9.9.9"),
        build_fingerprint(house.home, house.now_set.model_copy(update={"web": web})),
    ]
    assert len({own, *others}) == 4


def test_what_is_asked_for_is_counted_by_door(house):
    def counted(door: str, status: str) -> float:
        return metrics.value(names.API_CHANGES, door=door, status=status)

    before = [counted("token", "200"), counted("session", "200"), counted("token", "404")]
    house.client().post(f"{API}/pause")
    browser(house).post(f"{API}/resume")
    house.client().post(f"{API}/tasks/stop", json={"tasks": ["nobody"]})
    house.client().get(f"{API}/status")
    after = [counted("token", "200"), counted("session", "200"), counted("token", "404")]
    assert [now - then for now, then in zip(after, before, strict=True)] == [1, 1, 1]
