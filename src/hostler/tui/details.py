"""All about one row, as labels and texts. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hostler.tui.fitting import shown
from hostler.tui.numbers import UNKNOWN, lasted, moment, money, passed, share
from hostler.tui.rows import Row, name_of, state_words
from hostler.tui.state import News, Panel

Facts = Iterator[tuple[str, str]]


def facts_of(panel: Panel, row: Row, news: News) -> list[tuple[str, str]]:
    """What is known about a row; what says nothing is left out. Addresses are whole."""
    item = row.item or {}
    if panel in (Panel.LOG, Panel.HISTORY):
        item = {**item, "of": row.cells[0]}
    made = _PANELS[panel](item, news)
    return [(label, shown(text)) for label, text in made if text]


def _about(item: Mapping[str, Any], news: News) -> Facts:
    yield "title", item.get("title") or ""
    yield "task", item.get("task") or ""
    yield "repository", name_of(item["project"], news)
    yield "issue", item.get("issue_url") or ""
    yield "PR", item.get("pull_url") or ""
    yield "flow", state_words(item.get("flow") or "")


def _agent(item: Mapping[str, Any], news: News) -> Facts:
    yield from _about(item, news)
    yield "agent", f"{item['agent']} of pool {item['pool']}, {item['kind']}"
    yield "run", f"{item['run']} ({item['state']}), attempt {item['attempt']}"
    yield "for", passed(item["seconds"] + news.late)
    yield "last sign", moment(item["active_at"], news.now, news.zone)
    yield "waits", "Its place is lent: it waits for others." if item["lent"] else ""
    yield "stops", item["stopping"] or ""
    counts = (item["input_tokens"], item["output_tokens"], item["cached_tokens"])
    yield "tokens", "{:,} in, {:,} out, {:,} cached".format(*counts)
    yield "cost", money(item["usd"])


def _queued(item: Mapping[str, Any], news: News) -> Facts:
    yield from _about(item, news)
    yield "state", f"{state_words(item['state'])}, attempt {item['attempt']}"
    yield "waits", f"{passed(item['seconds'] + news.late)}, place {item['position']}"
    if item["would_start"]:
        yield "gate", "Nothing holds it: it is next."
        return
    yield "gate", item["gate"]
    yield "why", item["why"] or ""
    yield "since", moment(item["since"], news.now, news.zone)
    opens = moment(item["until"], news.now, news.zone)
    yield "opens", "not known" if opens == UNKNOWN else opens
    yield "do", item["remedy"] or ""


def _needy(item: Mapping[str, Any], news: News) -> Facts:
    yield from _about(item, news)
    yield "state", f"{state_words(item['state'])} for {passed(item['seconds'] + news.late)}"
    yield "question", item["question"] or ""
    yield "why", item["what"]
    yield "then", item["then"]


def _pull(item: Mapping[str, Any], news: News) -> Facts:
    yield from _about(item, news)
    yield "status", state_words(item["status"])
    yield "branch", item["branch"] or ""
    yield "head", item["head_sha"] or ""
    yield "turns", f"{item['turns_without_person']} without a person's word"


def _record(item: Mapping[str, Any], _news: News) -> Facts:
    yield "repository", item["of"]
    yield "runs", f"{item['count']}, of which {item['failed']} failed"
    yield "failure rate", share(item["failure_rate"])
    yield "mean", lasted(item["mean_seconds"])
    yield "std-dev", lasted(item["std_seconds"])


def _line(item: Mapping[str, Any], _news: News) -> Facts:
    yield "line", item["of"]


_PANELS: Mapping[Panel, Callable[[Mapping[str, Any], News], Facts]] = {
    Panel.AGENTS: _agent,
    Panel.QUEUE: _queued,
    Panel.BLOCKED: _needy,
    Panel.PRS: _pull,
    Panel.HISTORY: _record,
    Panel.LOG: _line,
}
