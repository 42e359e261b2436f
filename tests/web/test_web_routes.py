"""Responses of every route; commands act as on the command line."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from hostler.bus.bus import open_task_bus
from hostler.config.pools import load_pools
from hostler.model import format_timestamp
from hostler.service.scheduling.admission import ADMISSION_SCOPES
from hostler.store.governor import PoolSample, Signal, Source, add_samples, add_signals
from hostler.store.operator import all_pauses
from hostler.store.pull_requests import PullRow, PullStatus, add_pull
from hostler.store.runs import find_run
from hostler.store.tasks import TaskState, require_task

API = "/api/v1"


def ok(answer, status=200):
    assert answer.status_code == status, answer.text
    return answer.json()


def state_of(api_home, task):
    with api_home.store.read() as tx:
        return require_task(tx, task.id).state


def test_health_and_version_respond(client):
    assert ok(client.get(f"{API}/health")) == {"status": "ok"}
    assert ok(client.get(f"{API}/version"))["hostler"]
    assert ok(client.get(f"{API}/session")) == {"by": "ann", "csrf": None}
    refused = client.get(f"{API}/ready")
    assert (refused.status_code, refused.json()["error"]["kind"]) == (503, "service_not_running")


def test_ready_requires_a_running_service(api_home, client, monkeypatch):
    monkeypatch.setattr("hostler.web.routes.system.read_presence", lambda _home: api_home.presence)
    assert ok(client.get(f"{API}/ready")) == {"status": "ready"}


def test_status_is_the_snapshot(api_home, client):
    task = api_home.put()
    seen = ok(client.get(f"{API}/status"))
    assert seen == json.loads(json.dumps(api_home.context.snapshots.read().as_json())) | {
        "governor": seen["governor"]
    }
    assert [one["task"] for one in seen["queue"]] == [task.id]


def test_projects_repositories_pulls_and_blocked_work(api_home, client):
    api_home.start(api_home.put("barn"))
    asks = api_home.put("garden", state=TaskState.NEEDS_INPUT, question="Which?")
    with api_home.store.write(*ADMISSION_SCOPES) as tx:
        pull = PullRow("octo/barn", 7, 3, asks.id, "b", PullStatus.BLOCKED)
        add_pull(tx, pull)
    projects = {one["project"]: one for one in ok(client.get(f"{API}/projects"))["projects"]}
    assert set(projects) == {"barn", "stable", "field", "garden"}
    assert (projects["barn"]["at_work"], projects["garden"]["needs_person"]) == (1, 1)
    assert projects["garden"]["repo"] is None
    assert len(ok(client.get(f"{API}/repositories"))["repositories"]) == 3
    pulls = ok(client.get(f"{API}/pulls"))
    assert pulls["total"] == 1 and pulls["pulls"][0]["pull"] == 7
    blocked = ok(client.get(f"{API}/blocked"))
    assert blocked["total"] == 1 and "task answer" in blocked["blocked"][0]["then"]


def test_tasks_page_by_page(api_home, client):
    made = [api_home.put("barn" if number % 2 else "stable").id for number in range(7)]
    listed, before = [], ""
    while True:
        page = ok(client.get(f"{API}/tasks", params={"limit": 3, "before": before}))
        listed += [one["id"] for one in page["tasks"]]
        before = page["next"]
        if before is None:
            break
    assert listed == sorted(made, reverse=True)


def test_tasks_by_state_project_and_parent(api_home, client):
    done = api_home.put("barn", state=TaskState.DONE)
    failed = api_home.put("stable", state=TaskState.FAILED)
    child = api_home.put("barn", order={"parent_task": api_home.put("barn").id})

    def ids(**params):
        return [one["id"] for one in ok(client.get(f"{API}/tasks", params=params))["tasks"]]

    assert ids(state=["done", "failed"]) == sorted([done.id, failed.id], reverse=True)
    assert ids(project="stable") == [failed.id]
    assert ids(parent=child.parent_task) == [child.id]
    assert ids(project="nobody") == []


def test_a_task_is_submitted_for_a_folder(api_home, client, tmp_path):
    asked = {"prompt": "Tidy up", "cwd": str(tmp_path), "project": "barn", "title": "Tidy"}
    taken = ok(client.post(f"{API}/tasks", json=asked), 201)
    assert (taken["project"], taken["status"]) == ("barn", "queued")
    with api_home.store.read() as tx:
        task = require_task(tx, taken["id"])
    assert (task.author, task.cwd, task.prompt) == ("ann", str(tmp_path), "Tidy up")
    assert (api_home.home / "projects" / "barn" / "tasks" / task.id / "TASK.md").is_file()


def test_a_task_is_submitted_for_a_repository_and_waits_for_another(api_home, client):
    first = api_home.put("stable")
    asked = {"prompt": "Mend it", "repo": "octo/stable", "depends_on": [first.id]}
    taken = ok(client.post(f"{API}/tasks", json=asked), 201)
    assert taken["depends_on"] == [first.id] and taken["gate"] == "dependencies"
    assert taken["blockers"][0]["name"] == first.id


@pytest.mark.parametrize(
    "asked",
    [
        {"prompt": "x"},
        {"prompt": "x", "cwd": "/no/such/folder"},
        {"prompt": "x", "cwd": "relative"},
        {"prompt": "x", "cwd": "/tmp", "repo": "barn"},
        {"prompt": " \n", "repo": "barn"},
        {"prompt": "x\0y", "repo": "barn"},
        {"prompt": "x", "repo": "nobody/nothing"},
        {"prompt": "x", "repo": "barn", "agent": "nobody"},
        {"prompt": "x", "repo": "barn", "depends_on": ["../x"]},
        {"prompt": "x", "cwd": "/tmp", "project": "../.."},
        {"prompt": "x", "repo": "barn", "env": ["A=b"]},
        {"prompt": "x", "repo": "barn", "sudo": True},
        {},
        [],
        None,
    ],
)
def test_what_cannot_become_a_task_changes_nothing(api_home, client, asked):
    refused = client.post(f"{API}/tasks", json=asked)
    assert 400 <= refused.status_code < 500 and refused.json()["error"]["what"]
    assert ok(client.get(f"{API}/tasks"))["tasks"] == []


def test_a_task_and_its_waiting_reason_are_shown(api_home, client):
    first, second = api_home.put(), api_home.put()
    assert ok(client.get(f"{API}/tasks/{second.id}"))["prompt"] == "job"
    told = ok(client.get(f"{API}/tasks/{second.id}/why"))
    assert (told["gate"], told["waits"]) == ("turn", True) and first.id in told["why"]


def test_stop_resume_cancel_retry(api_home, client):
    task = api_home.put()
    changed = ok(client.post(f"{API}/tasks/{task.id}/stop", json={"why": "wrong\nbranch"}))
    assert changed["changed"][0]["reason"] == "Stopped by ann: wrong branch"
    assert ok(client.post(f"{API}/tasks/{task.id}/resume"))["changed"][0]["state"] == "queued"
    ok(client.post(f"{API}/tasks/{task.id}/cancel"))
    refused = client.post(f"{API}/tasks/{task.id}/resume")
    assert (refused.status_code, refused.json()["error"]["kind"]) == (409, "command_refused")
    assert "retry" in refused.json()["error"]["remedy"]
    ok(client.post(f"{API}/tasks/{task.id}/retry", json={}))
    assert state_of(api_home, task) is TaskState.QUEUED


def test_a_question_is_answered(api_home, client):
    task = api_home.put(state=TaskState.NEEDS_INPUT, question="Which?")
    ok(client.post(f"{API}/tasks/{task.id}/answer", json={"text": "The left one."}))
    with api_home.store.read() as tx:
        assert "The left one." in require_task(tx, task.id).note
    (entry,) = ok(client.get(f"{API}/tasks/{task.id}"))["audit_entries"]
    assert (entry["what"], entry["asked"], entry["text"]) == ("answered", "Which?", "The left one.")
    assert entry["by"] and entry["at"] >= entry["asked_at"]
    refused = client.post(f"{API}/tasks/{task.id}/answer", json={"text": "Again."})
    assert refused.status_code == 409


def test_a_run_and_its_output_are_shown(api_home, client):
    run = api_home.start(api_home.put())
    folder = api_home.home / run.folder
    folder.mkdir(parents=True)
    (folder / "stdout").write_bytes("one\ntwo é\n".encode())
    shown = ok(client.get(f"{API}/runs/{run.run}"))
    assert (shown["task"], shown["state"]) == (run.task_id, "running")
    assert shown["output_bytes"] == {"stdout": 11, "stderr": 0}
    whole = client.get(f"{API}/runs/{run.run}/output")
    assert whole.text == "one\ntwo é\n" and whole.headers["x-hostler-complete"] == "0"
    assert whole.headers["content-type"].startswith("text/plain")
    part = client.get(f"{API}/runs/{run.run}/output", params={"offset": 4, "limit": 3})
    assert (part.text, part.headers["x-hostler-end"]) == ("two", "7")
    ranged = client.get(f"{API}/runs/{run.run}/output", headers={"Range": "bytes=-4"})
    assert (ranged.status_code, ranged.content) == (206, " é\n".encode())
    assert ranged.headers["content-range"] == "bytes 7-10/11"
    beyond = client.get(f"{API}/runs/{run.run}/output", headers={"Range": "bytes=50-"})
    assert (beyond.status_code, beyond.json()["error"]["kind"]) == (416, "invalid_range")
    errors = client.get(f"{API}/runs/{run.run}/output", params={"stream": "stderr"})
    assert errors.content == b""


def test_a_run_can_be_stopped_only_while_it_is_live(api_home, client):
    task = api_home.put()
    run = api_home.start(task)
    ok(client.post(f"{API}/runs/{run.run}/stop", json={"why": "no"}))
    assert state_of(api_home, task) is TaskState.STOPPED
    with api_home.store.read() as tx:
        assert "no" in find_run(tx, run.run).stop_why
    with api_home.store.write(*ADMISSION_SCOPES) as tx:
        tx.constant("UPDATE runs SET state = 'ended'")
    assert client.post(f"{API}/runs/{run.run}/stop").status_code == 409


def test_buses_are_read_and_posted_to(api_home, client):
    task = api_home.put()
    path = f"{API}/tasks/{task.id}/bus"
    first = ok(client.post(path, json={"text": "Use the left one."}), 201)
    api_home.clock.advance(1)
    ok(client.post(path, json={"text": "Why?", "type": "QUESTION", "thread": first["id"]}), 201)
    read = ok(client.get(path))["messages"]
    assert [one["body"] for one in read] == ["Use the left one.", "Why?"]
    assert read[0]["sender"] == {"kind": "person", "name": "ann"}
    assert read[1]["thread"] == first["id"]
    after = ok(client.get(path, params={"after": first["id"]}))["messages"]
    assert [one["body"] for one in after] == ["Why?"]
    typed = ok(client.get(path, params={"type": "USER"}))["messages"]
    assert [one["body"] for one in typed] == ["Use the left one."]
    assert len(open_task_bus(api_home.home, task.project, task.id).tail(9)) == 2
    assert ok(client.get(f"{API}/projects/barn/bus")) == {"messages": [], "skipped": 0}
    ok(client.post(f"{API}/projects/barn/bus", json={"text": "To all."}), 201)
    assert client.get(f"{API}/projects/nobody/bus").status_code == 404
    assert client.get(path, params={"after": "x"}).status_code == 422
    assert client.post(path, json={"text": "x", "type": "RUN_STOP"}).status_code == 422


def test_pool_history_has_samples_and_rate_limits(api_home, client):
    def noted(hours, active):
        at = format_timestamp(api_home.clock.now() - timedelta(hours=hours))
        return PoolSample("p", at, 9, 9, active, "closed", False)

    with api_home.store.write() as tx:
        add_samples(tx, [noted(2, 4), noted(0, 5)])
        add_signals(tx, [Signal("r", "q", "t", "barn", Source.LIVE, "rate_limited", times=2)])
    found = ok(client.get(f"{API}/pool-history"))
    assert [one["active"] for one in found["pools"]["p"]["samples"]] == [4, 5]
    assert [one["count"] for one in found["pools"]["q"]["limits"]] == [2]
    later = ok(client.get(f"{API}/pool-history?hours=1"))["pools"]["p"]["samples"]
    assert [one["active"] for one in later] == [5]


def test_pool_history_has_the_newest_thousand_rate_limits(api_home, client):
    with api_home.store.write() as tx:
        add_signals(tx, [Signal("r", "p", "t", "barn", Source.LIVE, "rate_limited")] * 1002)
    found = ok(client.get(f"{API}/pool-history"))["pools"]["p"]["limits"]
    assert len(found) == 1000


def test_changes_of_one_pool_at_the_same_time_are_all_kept(api_home, client):
    keys = {"settle_seconds": 7, "break_seconds": 70}
    for number in range(1, 9):
        ok(client.put(f"{API}/pools/p", json={"max_global_agents": 3}))
        wishes = [{key: value * number} for key, value in keys.items()]
        with ThreadPoolExecutor(2) as pool:
            for done in pool.map(lambda one: client.patch(f"{API}/pools/p", json=one), wishes):
                ok(done)
        caps = load_pools(api_home.home / "governor.json")["p"]
        assert (caps.settle_seconds, caps.break_seconds) == (7 * number, 70 * number)


def test_invalid_pool_requests_are_refused(api_home, client):
    assert client.patch(f"{API}/pools/nosuch", json={}).status_code == 404
    assert not (api_home.home / "governor.json").exists()
    ok(client.put(f"{API}/pools/p", json={"max_global_agents": 3}))
    for asked in ({"minutes": 5, "until": "2099-01-01T00:00Z"}, {"until": "2001-01-01T00:00Z"}):
        assert client.post(f"{API}/pools/p/park", json=asked).status_code == 422
    assert ok(client.get(f"{API}/pools/p"))["parked"] is None


def test_pools_are_shown_set_parked_and_resumed(api_home, client):
    api_home.start(api_home.put())
    assert {one["pool"] for one in ok(client.get(f"{API}/pools"))["pools"]} >= {"p"}
    assert ok(client.get(f"{API}/pools/p"))["active"] == 1
    shown = ok(client.put(f"{API}/pools/p", json={"max_global_agents": 3}))
    assert (shown["cap"], shown["adaptive"]) == (3, False)
    asked = {"max_global_agents": 2, "adaptive": True, "hard_max": 9}
    assert ok(client.put(f"{API}/pools/p", json=asked))["adaptive"] is True
    assert ok(client.put(f"{API}/pools/p", json={"max_global_agents": 3}))["adaptive"] is False
    # Changing only the cap keeps the other settings.
    ok(client.put(f"{API}/pools/p", json=asked))
    some = ok(client.patch(f"{API}/pools/p", json={"max_global_agents": 3}))
    assert (some["cap"], some["adaptive"]) == (3, True)
    assert client.patch(f"{API}/pools/p", json={"max_global_agents": 10}).status_code == 422
    ok(client.put(f"{API}/pools/p", json={"max_global_agents": 3}))
    wrong = {"max_global_agents": 5, "adaptive": True, "hard_max": 2}
    assert client.put(f"{API}/pools/p", json=wrong).status_code == 422
    assert ok(client.get(f"{API}/pools/p"))["cap"] == 3
    closed = ok(client.post(f"{API}/pools/p/park", json={"minutes": 5, "why": "new key"}))
    assert closed["parked"]["why"] == "new key"
    assert ok(client.post(f"{API}/pools/p/resume")) == {"pool": "p", "was_parked": True}
    assert ok(client.post(f"{API}/pools/p/park", json={}))["parked"] is not None
    assert ok(client.post(f"{API}/pools/p/reset"))["pool"] == "p"
    assert client.get(f"{API}/pools/nobody").status_code == 404


def test_a_damaged_caps_file_is_reported_and_kept(api_home, client):
    (api_home.home / "governor.json").write_text("{")
    for answer in (
        client.get(f"{API}/status"),
        client.put(f"{API}/pools/p", json={"max_global_agents": 3}),
    ):
        assert (answer.status_code, answer.json()["error"]["kind"]) == (503, "config_error")
        assert "governor.json" in answer.json()["error"]["what"]
    assert (api_home.home / "governor.json").read_text() == "{"


def test_repositories_and_everything_are_paused(api_home, client):
    held = ok(client.post(f"{API}/repositories/barn/pause", json={"why": "moving"}))
    assert (held["scope"], held["changed"], held["by"]) == ("project:barn", True, "ann")
    ok(client.post(f"{API}/pause"))
    with api_home.store.read() as tx:
        assert set(all_pauses(tx)) == {"all", "project:barn"}
    lifted = ok(client.post(f"{API}/resume"))
    assert lifted == {"scope": "all", "changed": True, "still_paused": ["project:barn"]}
    assert ok(client.post(f"{API}/repositories/barn/resume"))["still_paused"] == []
    assert client.post(f"{API}/repositories/nobody/pause").status_code == 404


def test_events_of_the_log(api_home, client):
    logs = api_home.home / "logs"
    logs.mkdir()
    lines = [{"at": "x", "event": "a", "task": f"t{number}"} for number in range(5)]
    (logs / "2024-10-03.jsonl").write_text("\n".join(map(json.dumps, lines[:3])) + "\nno json\n")
    (logs / "2024-10-04.jsonl").write_text("\n".join(map(json.dumps, lines[3:])) + "\n[1]\n")
    assert ok(client.get(f"{API}/events"))["events"] == lines
    assert ok(client.get(f"{API}/events", params={"limit": 3}))["events"] == lines[2:]
    assert ok(client.get(f"{API}/events", params={"task": "t1"}))["events"] == [lines[1]]
    assert ok(client.get(f"{API}/events", params={"event": "b"}))["events"] == []


def test_settings_without_secrets(api_home, client):
    agent = api_home.current_settings.agent["helper"].model_copy(
        update={"command": ["x", "ghp_" + "a" * 30]}
    )
    api_home.current_settings = api_home.current_settings.model_copy(
        update={"agent": {"helper": agent}}
    )
    shown = ok(client.get(f"{API}/config"))
    assert shown["agent"]["helper"]["command"] == ["x", "[redacted]"]
    assert shown["repo"]["barn"]["owner"] == "octo"


def test_changed_settings_are_used_by_the_next_request(api_home, client):
    api_home.current_settings = api_home.current_settings.model_copy(update={"repo": {}})
    assert ok(client.get(f"{API}/repositories"))["repositories"] == []


def test_metrics(client):
    answer = client.get("/metrics")
    assert answer.status_code == 200 and "# HELP live_clients" in answer.text


def test_the_schema_lists_every_route_and_the_error_body(client):
    schema = ok(client.get(f"{API}/openapi.json"))
    assert {f"{API}/status", f"{API}/tasks/{{task}}/stop", "/metrics"} <= set(schema["paths"])
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            shape = operation["responses"]["4XX"]["content"]["application/json"]["schema"]
            assert shape == {"$ref": "#/components/schemas/ErrorBody"}, (path, method)
