"""Responses of the API with enough data to fill every screen."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

Json = dict[str, Any]
NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def stamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.000Z")


def ago(now: datetime, **parts: float) -> str:
    return stamp(now - timedelta(**parts))


def task_reference(name: str, title: str, issue: int | None, state: str, **more: Any) -> Json:
    repo = None if issue is None else "octo/stable"
    url = f"https://github.example/octo/stable/issues/{issue}" if issue else None
    pull = more.pop("pull", None)
    return {
        "task": name,
        "project": more.pop("project", "stable"),
        "repo": repo,
        "issue": issue,
        "issue_url": url,
        "pull": pull,
        "pull_url": f"https://github.example/octo/stable/pull/{pull}" if pull else None,
        "title": title,
        "flow": more.pop("flow", "bugfix"),
        "state": state,
        **more,
    }


def agent(name: str, title: str, issue: int | None, now: datetime, **more: Any) -> Json:
    seconds = more.pop("seconds", 754.0)
    idle = more.pop("idle", 4.0)
    return {
        **task_reference(name, title, issue, "running"),
        "run": f"{name}-r{more.get('attempt', 1)}",
        "agent": "claude",
        "pool": "anthropic",
        "kind": "direct",
        "attempt": 1,
        "state": "running",
        "seconds": seconds,
        "active_at": ago(now, seconds=idle),
        "idle_seconds": idle,
        "lent": False,
        "stopping": None,
        "input_tokens": 184_200,
        "output_tokens": 9_310,
        "cached_tokens": 120_000,
        "usd": 0.84,
        **more,
    }


def queued(
    position: int, name: str, title: str, issue: int | None, now: datetime, **more: Any
) -> Json:
    return {
        "position": position,
        **task_reference(name, title, issue, more.pop("state", "queued")),
        "attempt": 0,
        "seconds": 300.0,
        "would_start": False,
        "gate": "cap",
        "why": "4 of 4 agents of pool anthropic are running.",
        "remedy": "Wait until one ends, or raise the cap.",
        "since": ago(now, minutes=5),
        "until": None,
        "starts_at": None,
        "starts_about": None,
        **more,
    }


def pool(name: str, **more: Any) -> Json:
    return {
        "pool": name,
        "max_global_agents": 8,
        "cap": 8,
        "active": 0,
        "free": 8,
        "adaptive": False,
        "policy": "aimd",
        "overlay": None,
        "parked": None,
        "leases": [],
        "demand": [],
        "shares": {},
        "projects": [],
        **more,
    }


def overlay(now: datetime, **more: Any) -> Json:
    breaker = {
        "state": "closed",
        "open_at": None,
        "open_until": None,
        "break_seconds": 300.0,
        "reopen_count": 0,
        "probe": None,
        **more.pop("breaker", {}),
    }
    return {
        "dynamic_cap": 4,
        "hard_max": 8,
        "settle_seconds": 120,
        "settle_until": None,
        "last_decrease_at": ago(now, minutes=12),
        "last_rate_limit_at": ago(now, minutes=12),
        "rate_limit_events": 3,
        "breaker": breaker,
        "min_dispatch_interval_seconds": 0,
        "next_dispatch_at": None,
        "gate_until": None,
        **more,
    }


def share(project: str, holds: int, of: int, wants: int | None, waits: Json | None = None) -> Json:
    return {"project": project, "holds": holds, "share": of, "wants": wants, "waits": waits}


NO_RUNS: Json = {
    "count": 0,
    "failed": 0,
    "failure_rate": None,
    "mean_seconds": None,
    "std_seconds": None,
}


def record(count: int, failed: int, mean: float, std: float) -> Json:
    rate = round(failed / count, 3)
    return {
        "count": count,
        "failed": failed,
        "failure_rate": rate,
        "mean_seconds": mean,
        "std_seconds": std,
    }


def empty_snapshot(now: datetime = NOW) -> Json:
    """Return a snapshot of a running service without tasks."""
    costs = {"primary_per_hour": 120.0, "points_per_minute": 4.0, "stretch": 1.0, "fits": True}
    return {
        "now": stamp(now),
        "service": {
            "pid": 4711,
            "program": "hostler",
            "version": "0.1.0",
            "host": "stable",
            "since": ago(now, hours=3),
            "purpose": "service",
            "takes_tasks": True,
        },
        "pauses": [],
        "at_work": [],
        "at_work_total": 0,
        "tasks": {},
        "queue": [],
        "queue_total": 0,
        "needs_person": [],
        "needs_person_total": 0,
        "pulls": [],
        "pulls_total": 0,
        "repositories": [],
        "governor": {
            "pools": [pool("default")],
            "machine": {"active": 0, "max_agents": 0},
            "memory": {"free_mb": 6144, "floor_mb": 1024},
            "ended": [],
        },
        "history": {name: {"all": NO_RUNS, "projects": {}} for name in ("1h", "24h", "7d", "30d")},
        "cost": {
            "today_usd": 0,
            "unpriced_runs": 0,
            "projects": {},
            "per_task_usd": 20.0,
            "per_repo_daily_usd": 0.0,
            "per_day_usd": 0.0,
        },
        "github": {
            "now": costs,
            "worst": {**costs, "primary_per_hour": 900.0, "points_per_minute": 31.0},
            "may_be_used": {"primary_per_hour": 4000, "points_per_minute": 720},
            "advice": [],
        },
        "unsent_writes": 0,
        "disk_full": None,
        "objectives": [
            objective("polls_on_time", "Looks in time", "share", 0.99, None, 0, None),
        ],
    }


def objective(name: str, what: str, unit: str, target: float, *found: Any) -> Json:
    value, of, met = found
    most = unit == "seconds"
    return {
        "name": name,
        "what": what,
        "unit": unit,
        "target": target,
        "at_most": most,
        "value": value,
        "of": of,
        "met": met,
    }


def pool_history(now: datetime = NOW) -> Json:
    """Return the history of one pool, with a gap of an hour and a rate limit."""
    facts = {"ceiling": 8, "breaker": "closed", "parked": False}
    return {
        "since": ago(now, hours=24),
        "now": stamp(now),
        "pools": {
            "anthropic": {
                "samples": [
                    {"at": ago(now, hours=3), "cap": 8, "active": 6, **facts},
                    {"at": ago(now, hours=2), "cap": 4, "active": 4, **facts, "breaker": "open"},
                    {"at": ago(now, hours=2, minutes=-5), "cap": 4, "active": 2, **facts},
                    {"at": ago(now, minutes=5), "cap": 4, "active": 3, **facts},
                ],
                "limits": [{"at": ago(now, hours=2), "count": 2, "reason": "rate_limited"}],
            }
        },
    }


def full_snapshot(now: datetime = NOW) -> Json:
    """Return a snapshot with data in every section."""
    working = [
        agent(
            "20260301-113012-stable-12-bugfix",
            "Leap years: 1900 counts as one, which breaks every calendar before 1904",
            12,
            now,
        ),
        agent(
            "20260301-114510-stable-15-design",
            "Show the strongest tides first",
            15,
            now,
            attempt=2,
            seconds=2713.0,
            idle=431.0,
            usd=2.41,
            kind="design",
        ),
        agent(
            "20260301-115533-tidy-imports",
            "Tidy up the imports",
            None,
            now,
            project="tools",
            agent="codex",
            pool="openai",
            seconds=41.0,
            usd=0.0,
            input_tokens=1200,
            output_tokens=80,
        ),
    ]
    waiting = [
        queued(
            1,
            "20260301-115001-stable-16-small",
            "Tell how many days a month has",
            16,
            now,
            seconds=2400.0,
            starts_at=stamp(now + timedelta(minutes=6)),
            starts_about=True,
        ),
        queued(
            2,
            "20260301-115102-stable-17-bugfix",
            "Harbour of Brest is missing from the table",
            17,
            now,
            state="retrying",
            gate="time",
            why="It is tried again after a limit of its provider.",
            until=stamp(now + timedelta(minutes=4)),
            starts_at=stamp(now + timedelta(minutes=4)),
            starts_about=False,
        ),
        queued(
            3,
            "20260301-115203-stable-18-bugfix",
            "Sort harbours by name",
            18,
            now,
            gate="dependencies",
            why="octo/stable#16 must be ready first.",
        ),
        queued(
            4,
            "20260301-115304-tools-lint",
            "Let the linter read the new settings",
            None,
            now,
            project="tools",
            gate=None,
            why=None,
            remedy=None,
            would_start=True,
            starts_at=stamp(now),
            starts_about=False,
        ),
    ]
    needy = [
        {
            **task_reference(
                "20260301-090000-ask-brest",
                "Add the harbour of Brest",
                None,
                "needs_input",
                project="tools",
            ),
            "seconds": 4210.0,
            "question": "Shall old files be converted, or refused?",
            "by_hand": True,
            "what": "It asks.",
            "then": "Answer it: hostler task answer.",
        },
        {
            **task_reference(
                "20260301-100000-stable-9-bugfix", "Dates before 1582", 9, "blocked", pull=31
            ),
            "seconds": 900.0,
            "question": None,
            "by_hand": False,
            "what": "The same check failed twice: unit tests on Python 3.11.",
            "then": "Look at the pull request, then: hostler task resume.",
        },
    ]
    snapshot = empty_snapshot(now)
    history = {
        "all": record(42, 5, 640.0, 210.0),
        "projects": {"stable": record(30, 2, 700.0, 180.0), "tools": record(12, 3, 490.0, 240.0)},
    }
    learned = pool(
        "anthropic",
        cap=4,
        active=2,
        free=2,
        adaptive=True,
        overlay=overlay(now),
        shares={"stable": 3, "tools": 1},
        projects=[
            share("stable", 2, 3, 3, {"gate": "cap", "why": "Its share is used."}),
            share("tools", 0, 1, 1),
        ],
    )
    shut = pool(
        "openai",
        cap=1,
        active=1,
        free=0,
        adaptive=True,
        overlay=overlay(
            now,
            breaker={
                "state": "open",
                "open_at": ago(now, minutes=1),
                "open_until": stamp(now + timedelta(minutes=4)),
            },
            rate_limit_events=9,
        ),
        shares={"tools": 1},
        projects=[share("tools", 1, 1, None)],
    )
    parked = pool(
        "google",
        parked={"until": stamp(now + timedelta(hours=2)), "why": "Its quota of today is used up."},
    )
    return {
        **snapshot,
        "pauses": [
            {
                "scope": "project:almanac",
                "since": ago(now, minutes=50),
                "by": "ada",
                "why": "until the release is out",
            }
        ],
        "at_work": working,
        "at_work_total": len(working),
        "tasks": {
            "running": 3,
            "queued": 3,
            "retrying": 1,
            "needs_input": 1,
            "blocked": 1,
            "done": 31,
        },
        "queue": waiting,
        "queue_total": len(waiting),
        "needs_person": needy,
        "needs_person_total": len(needy),
        "pulls": [],
        "pulls_total": 2,
        "repositories": [
            repository("stable", "octo/stable", now, at_work=2, queued=3, pulls=2),
            repository(
                "almanac", "octo/almanac", now, paused="Paused by ada: until the release is out."
            ),
        ],
        "governor": {
            "pools": [learned, parked, shut],
            "machine": {"active": 3, "max_agents": 12},
            "memory": {"free_mb": 6144, "floor_mb": 1024},
            "ended": [],
        },
        "history": {
            "1h": {
                "all": record(3, 0, 420.0, 80.0),
                "projects": {"stable": record(3, 0, 420.0, 80.0)},
            },
            "24h": history,
            "7d": history,
            "30d": history,
        },
        "cost": {
            **snapshot["cost"],
            "today_usd": 11.37,
            "projects": {"stable": 9.12, "tools": 2.25},
            "per_day_usd": 50.0,
            "unpriced_runs": 1,
        },
        "unsent_writes": 2,
        "objectives": [
            objective("polls_on_time", "Looks in time", "share", 0.99, 0.9986, 2880, True),
            objective("start_seconds_p95", "From a place", "seconds", 60.0, 74.0, 42, False),
            objective("runs_ended_well", "Agents that ended well", "share", 0.9, None, 0, None),
        ],
    }


def repository(project: str, repo: str, now: datetime, **more: Any) -> Json:
    return {
        "project": project,
        "repo": repo,
        "paused": None,
        "paused_in_settings": False,
        "weight": 1,
        "max_concurrent_slots": 3,
        "at_work": 0,
        "queued": 0,
        "pulls": 0,
        "feeds": [
            {"surface": "repo_issue_comments", "newest": ago(now, minutes=7)},
            {"surface": "repo_issues", "newest": ago(now, seconds=40)},
        ],
        "polls": {
            "looked_at": ago(now, seconds=20),
            "lag_seconds": 1.25,
            "mean_seconds": 1.5,
            "worst_seconds": 44.0,
            "polls": 2880,
            "late": 3,
            "failed": 1,
            "overdue_seconds": None,
        },
        **more,
    }


def brief(name: str, title: str, state: str, now: datetime, **more: Any) -> Json:
    """Return a task of the task list."""
    return {
        "id": name,
        "project": "stable",
        "title": title,
        "state": state,
        "state_since": ago(now, minutes=5),
        "flow": "bugfix",
        "parent_task": None,
        "repo_full_name": "octo/stable",
        "issue_number": 12,
        "pr_number": None,
        "attempt": 1,
        "gate": "",
        "wake_at": None,
        "created_at": ago(now, minutes=30),
        "agent": "claude",
        "depends_on": [],
        **more,
    }


def briefs(now: datetime = NOW) -> list[Json]:
    """Return tasks for the board and the graph."""
    return [
        brief(
            "20260301-113012-stable-12-bugfix",
            "Leap years: 1900 counts as one, which breaks every calendar before 1904",
            "running",
            now,
        ),
        brief(
            "20260301-114510-stable-15-design",
            "Show the strongest tides first",
            "running",
            now,
            issue_number=15,
            flow="design",
        ),
        brief(
            "20260301-115001-stable-16-small",
            "Tell how many days a month has",
            "queued",
            now,
            issue_number=16,
            flow="small_job",
        ),
        brief(
            "20260301-115102-stable-17-bugfix",
            "Harbour of Brest is missing from the table",
            "retrying",
            now,
            issue_number=17,
        ),
        brief(
            "20260301-115203-stable-18-bugfix",
            "Sort harbours by name",
            "queued",
            now,
            issue_number=18,
            depends_on=["octo/stable#16", "octo/stable#17"],
        ),
        brief(
            "20260301-115204-stable-19-bugfix",
            "Print the sorted table",
            "queued",
            now,
            issue_number=19,
            depends_on=["20260301-115203-stable-18-bugfix", "octo/other#3"],
        ),
        brief(
            "20260301-115205-stable-15-impl",
            "Show the strongest tides first: build it",
            "queued",
            now,
            issue_number=15,
            parent_task="20260301-114510-stable-15-design",
        ),
        brief(
            "20260301-090000-ask-brest",
            "Add the harbour of Brest",
            "needs_input",
            now,
            project="tools",
            repo_full_name=None,
            issue_number=None,
            flow="task",
        ),
        brief(
            "20260301-100000-stable-9-bugfix",
            "Dates before 1582",
            "blocked",
            now,
            issue_number=9,
            pr_number=31,
        ),
        brief(
            "20260301-080000-stable-7-bugfix",
            "Week numbers at the turn of the year",
            "awaiting_feedback",
            now,
            issue_number=7,
            pr_number=30,
        ),
        brief(
            "20260301-070000-stable-5-bugfix",
            "Time zones of Morocco",
            "done",
            now,
            issue_number=5,
            pr_number=28,
        ),
        brief(
            "20260301-060000-stable-4-small",
            "A shorter help text",
            "stopped",
            now,
            issue_number=4,
            flow="small_job",
        ),
    ]


def run(task: str, attempt: int, now: datetime, **more: Any) -> Json:
    return {
        "run": f"{task}-r{attempt}",
        "attempt": attempt,
        "kind": "direct",
        "agent": "claude",
        "outcome": None,
        "why": "",
        "stop_why": None,
        "counted": True,
        "exit_code": None,
        "input_tokens": 184_200,
        "output_tokens": 9_310,
        "cached_tokens": 120_000,
        "usd": 0.84,
        "session": "",
        "admitted_at": ago(now, minutes=13),
        "running_at": ago(now, minutes=12.5),
        "exited_at": None,
        "ended_at": None,
        "slot_released_at": None,
        "state": "running",
        "seconds": 750.0,
        "folder": f"/home/ada/.hostler/projects/stable/tasks/{task}/runs/{task}-r{attempt}",
        **more,
    }


def task(name: str, now: datetime = NOW, **more: Any) -> Json:
    """Return the details of a task."""
    return {
        "id": name,
        "project": "stable",
        "repo_full_name": "octo/stable",
        "issue_number": 12,
        "pr_number": None,
        "title": "Leap years: 1900 counts as one",
        "author": "ada",
        "reason": "",
        "question": "",
        "note": "",
        "attempt": 1,
        "turn": 0,
        "session": "",
        "agent": "claude",
        "branch": "hostler/12-leap-years",
        "base_branch": "main",
        "cwd": None,
        "env": [],
        "depends_on": [],
        "parent_task": None,
        "state_since": ago(now, minutes=12.5),
        "wake_at": None,
        "gate": "",
        "gate_since": None,
        "wall_limit_minutes": 90,
        "max_restarts": 100,
        "created_at": ago(now, minutes=30),
        "updated_at": ago(now, minutes=12.5),
        "flow": "bugfix",
        "state": "running",
        "issue_url": "https://github.example/octo/stable/issues/12",
        "pull_url": None,
        "folder": f"/home/ada/.hostler/projects/stable/tasks/{name}",
        "checkout": f"/home/ada/.hostler/checkouts/stable/{name}",
        "prompt": "1900 is no leap year.\n\nSay so, with a test.",
        "blockers": [],
        "children": [],
        "usd": 0.84,
        "next": "",
        "audit_entries": [],
        "runs": [],
        **more,
    }


def message(number: int, kind: str, body: str, now: datetime, **more: Any) -> Json:
    sender = {"kind": "agent", "run": "r1", "task": "t", "project": "stable"}
    return {
        "id": f"20260301-1200{number:02d}-000000",
        "at": ago(now, minutes=10 - number),
        "type": kind,
        "sender": sender,
        "body": body,
        **more,
    }


FINDINGS: list[Json] = [
    {"check": "config", "status": "ok", "evidence": "hostler.toml: no mistakes", "remedy": ""},
    {"check": "database", "status": "ok", "evidence": "layout 0016, sound", "remedy": ""},
    {"check": "git", "status": "ok", "evidence": "git 2.39.5", "remedy": ""},
    {
        "check": "github.token",
        "status": "warning",
        "evidence": "the token may not read Actions",
        "remedy": "Give it Actions: read, or set `pr_actions_feedback_policy` to never.",
    },
    {
        "check": "agents.gemini",
        "status": "failed",
        "evidence": "gemini is not on PATH",
        "remedy": "Install it, or remove [agent.gemini].",
    },
    {"check": "disk", "status": "ok", "evidence": "41 GB free", "remedy": ""},
    {"check": "clock", "status": "skipped", "evidence": "nothing to compare with", "remedy": ""},
]
