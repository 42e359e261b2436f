"""Guests in the stable of a demo: more agents and tasks than its story has, all of them played.

They do nothing but talk, take their time and cost what their scripts say; everything that the
pictures show of them is what the real service made of that.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

# What each says and does while it works, over and over.
WORDS = (
    ("Reading what is there.", "Read", "guide/tides.md"),
    ("Two places do the same; one is enough.", "Edit", "src/tables.py"),
    ("Now the tests.", "Bash", "make test"),
    ("One of them was right to fail.", "Edit", "tests/test_tables.py"),
)
ROUNDS = 60


@dataclass(frozen=True, slots=True)
class Guest:
    """A task by hand. `seconds`: for how long its agent works; `limited`: it meets a limit."""

    title: str
    project: str
    agent: str
    seconds: int = 600
    limited: bool = False


POOLS = {"juniper": "anthropic", "heron": "openai", "badger": "google"}
# Runs that are over, so that there is something to expect.
FIRST = (
    Guest("Name the lighthouses", "harbour-guide", "heron", 6),
    Guest("Count the days of every month", "sky-map", "heron", 9),
    Guest("Say which buoys are lit", "harbour-guide", "juniper", 7),
    Guest("Check the tables of 2025", "sky-map", "juniper", 11),
)
THEN = (
    Guest("Print the tide table on one page", "harbour-guide", "juniper"),
    Guest("Explain spring tides and neap tides to beginners", "harbour-guide", "juniper"),
    Guest("Let the map turn with the time of day", "sky-map", "juniper"),
    Guest("Sunrise is a minute late in winter", "sky-map", "heron"),
    Guest("Translate the guide into Breton", "harbour-guide", "heron", 600, limited=True),
    Guest("Draw the phases of the moon", "sky-map", "badger"),
    Guest("Read heights in feet as well as in metres", "harbour-guide", "heron"),
    Guest("Warn before a storm surge", "harbour-guide", "heron"),
    Guest("Show Venus when it is near the moon", "sky-map", "heron"),
)


def invite(home: Path) -> None:
    """Write the scripts, and tell the settings of them; a service takes that up by itself."""
    tables = []
    for agent, pool in POOLS.items():
        script = home / f"{agent}.json"
        script.write_text(json.dumps({"version": 1, "scene": scenes(agent)}), encoding="utf-8")
        tables.append(f'[agent.{agent}]\nkind = "scripted"\nscript = "{script}"\npool = "{pool}"\n')
    config = home / "hostler.toml"
    text = config.read_text(encoding="utf-8")
    # More hands than the story needs.
    text = text.replace("[runtime]\n", "[runtime]\nworker_count = 16\n")
    config.write_text("\n".join([text, *tables]), encoding="utf-8")


def scenes(agent: str) -> list[dict[str, Any]]:
    """What an agent plays for each of its tasks."""
    mine = [one for one in (*FIRST, *THEN) if one.agent == agent]
    return [{"when": {"prompt_has": one.title}, "steps": steps(one)} for one in mine]


def steps(guest: Guest) -> list[dict[str, Any]]:
    """A run of so many seconds, with a sign of life every few of them."""
    found: list[dict[str, Any]] = []
    pause = min(3.0, guest.seconds / len(WORDS))
    for number in range(min(ROUNDS, max(1, int(guest.seconds / pause / len(WORDS))))):
        for at, (said, tool, detail) in enumerate(WORDS):
            found += [{"say": said}, {"tool": {"name": tool, "detail": detail}}]
            tokens = 5200 + 640 * len(guest.title) + 900 * at
            found.append(
                {"usage": {"input": tokens, "output": 310 + 7 * at, "cached": tokens // 2}}
            )
            found += [{"cost": round(0.011 + 0.002 * at, 4)}, {"delay": pause}]
        if guest.limited and number == 1:
            found.append({"limit": {"reason": "rate_limited", "status": 429}})
    return [*found, {"mark_done": True}]


def set_caps(client: httpx.Client) -> None:
    """Two pools that learn, and one that does not."""
    for pool, most, adaptive in (("anthropic", 6, True), ("openai", 3, True), ("google", 2, False)):
        caps: dict[str, Any] = {"max_global_agents": most, "adaptive": adaptive}
        if adaptive:
            caps |= {"hard_max": most + 2, "settle_seconds": 5, "min_dispatch_interval_seconds": 0}
        client.put(f"pools/{pool}", json=caps).raise_for_status()


def submit(client: httpx.Client, guest: Guest, folder: Path) -> str:
    """Have it queued; its id."""
    asked = {
        "prompt": f"{guest.title}.",
        "title": guest.title,
        "project": guest.project,
        "agent": guest.agent,
        "cwd": str(folder),
    }
    name: str = client.post("tasks", json=asked).raise_for_status().json()["id"]
    return name
