"""The lines above the panels: who works, what is spent, what stands in the way. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hostler.model import parse_stamp
from hostler.tui.fitting import shown
from hostler.tui.numbers import moment, money, passed
from hostler.tui.rows import name_of
from hostler.tui.state import News, Screen

_MOST_POOLS = 6


def title(screen: Screen, news: News) -> str:
    """What this is, and who works."""
    return f"hostler {'console' if screen.console else 'top'}  {service_words(news)}"


def chosen(screen: Screen, news: News) -> str:
    """What is shown of it all."""
    of = name_of(screen.project, news) if screen.project else "all repositories"
    return f"{of} · {screen.window}"


def service_words(news: News) -> str:
    """Who works on the home."""
    if news.seen is None:
        return "looking" if not news.trouble else "nothing to show"
    holder = news.seen["service"]
    if holder is None:
        return "no service works here: nothing starts"
    who = shown(f"pid {holder['pid']} on {holder['host']}")
    if not holder["takes_tasks"]:
        return f"no service: {shown(holder['purpose'])} holds the home ({who})"
    since = (news.now - parse_stamp(holder["since"])).total_seconds() + news.late
    return f"service works for {passed(since)}, {who}"


def facts(screen: Screen, news: News, *, narrow: bool) -> list[tuple[str, str]]:
    """What else is to be known, the most urgent first, each with its tone.

    `narrow`: there was no room for what is shown of it all.
    """
    if news.seen is None:
        return []
    only = [(f"only {name_of(screen.project, news)}", "")] if narrow and screen.project else []
    return [*only, *_facts(news.seen, news)]


def _facts(seen: Mapping[str, Any], news: News) -> Iterator[tuple[str, str]]:
    if seen["disk_full"]:
        yield shown(seen["disk_full"]), "bad"
    for one in seen["pauses"][:2]:
        what = one["scope"].removeprefix("project:")
        of = "everything" if what == "all" else name_of(what, news)
        yield f"paused: {of}" + (f" ({shown(one['why'])})" if one["why"] else ""), "warn"
    yield from _pools(seen, news)
    yield f"{money(seen['cost']['today_usd'])} today", ""
    if seen["unsent_writes"]:
        yield f"{seen['unsent_writes']} writes not sent yet", "warn"


def _pools(seen: Mapping[str, Any], news: News) -> Iterator[tuple[str, str]]:
    for one in seen["governor"]["pools"][:_MOST_POOLS]:
        parked = one["parked"]
        until = f" closed until {moment(parked['until'], news.now, news.zone)}" if parked else ""
        text = f"{shown(one['pool'])} {one['active']}/{one['max_global_agents']}{until}"
        yield text, "warn" if parked else ""
