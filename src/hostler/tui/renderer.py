"""Draw the whole screen as lines of text spans. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hostler.model import parse_timestamp
from hostler.tui import dialogs
from hostler.tui.layout import (
    fit_columns,
    format_header,
    format_row,
    justify_pair,
    panel_heights,
    visible_rows,
)
from hostler.tui.rows import (
    BAD,
    COLUMNS,
    DIM,
    EMPTY_TEXTS,
    NOT_LOADED,
    PanelRow,
    build_rows,
    count_rows,
    find_selected,
    repository_name,
)
from hostler.tui.state import KEY_HINTS, STOP_HINT, Panel, RepositoryDialog, ScreenData, ScreenState
from hostler.tui.text_format import (
    format_age,
    format_time,
    format_usd,
    sanitize_text,
    text_width,
    truncate,
    wrap_text,
)

_MAX_POOLS = 6


def build_title(screen: ScreenState, news: ScreenData) -> str:
    """Return the name of the screen and the state of the service."""
    return f"hostler {'console' if screen.console else 'top'}  {describe_service(news)}"


def describe_filter(screen: ScreenState, news: ScreenData) -> str:
    """Return which repository and which history window are shown."""
    of = repository_name(screen.project, news) if screen.project else "all repositories"
    return f"{of} · {screen.window}"


def describe_service(news: ScreenData) -> str:
    """Return whether a service is running, and which."""
    if news.seen is None:
        return "loading" if not news.trouble else "no data"
    holder = news.seen["service"]
    if holder is None:
        return "service not running: no tasks will start"
    who = sanitize_text(f"pid {holder['pid']} on {holder['host']}")
    if not holder["takes_tasks"]:
        return f"service not running: {sanitize_text(holder['purpose'])} uses this home ({who})"
    since = (news.now - parse_timestamp(holder["since"])).total_seconds() + news.late
    return f"service running for {format_age(since)}, {who}"


def list_facts(screen: ScreenState, news: ScreenData, *, narrow: bool) -> list[tuple[str, str]]:
    """Return the facts of the second line with their tones, the most urgent first.

    `narrow`: the first line had no room for the filter.
    """
    if news.seen is None:
        return []
    only = (
        [(f"only {repository_name(screen.project, news)}", "")] if narrow and screen.project else []
    )
    return [*only, *_build_facts(news.seen, news)]


def _build_facts(seen: Mapping[str, Any], news: ScreenData) -> Iterator[tuple[str, str]]:
    if seen["disk_full"]:
        yield sanitize_text(seen["disk_full"]), "bad"
    for one in seen["pauses"][:2]:
        what = one["scope"].removeprefix("project:")
        of = "all work" if what == "all" else repository_name(what, news)
        yield f"paused: {of}" + (f" ({sanitize_text(one['why'])})" if one["why"] else ""), "warn"
    yield from _pool_facts(seen, news)
    yield f"{format_usd(seen['cost']['today_usd'])} today", ""
    if seen["unsent_writes"]:
        yield f"{seen['unsent_writes']} writes to GitHub not sent yet", "warn"


def _pool_facts(seen: Mapping[str, Any], news: ScreenData) -> Iterator[tuple[str, str]]:
    for one in seen["governor"]["pools"][:_MAX_POOLS]:
        parked = one["parked"]
        until = (
            f" parked until {format_time(parked['until'], news.now, news.zone)}" if parked else ""
        )
        text = f"{sanitize_text(one['pool'])} {one['active']}/{one['max_global_agents']}{until}"
        yield text, "warn" if parked else ""


TITLE, RULE, FOCUS, PICK = "title", "rule", "focus", "pick"
MIN_COLUMNS, MIN_LINES = 20, 5
_MARKER_COLUMNS = 2


@dataclass(frozen=True, slots=True)
class TextSpan:
    """A part of a line, and its tone."""

    text: str
    tone: str = ""


Line = tuple[TextSpan, ...]


@dataclass(frozen=True, slots=True)
class ScreenFrame:
    """All lines of a screen. `ages`: it shows an elapsed time and must be redrawn."""

    lines: tuple[Line, ...]
    ages: bool = False

    def text(self) -> str:
        """Return the text without tones."""
        return "\n".join("".join(span.text for span in one).rstrip() for one in self.lines)


@dataclass(frozen=True, slots=True)
class _PanelPart:
    """One panel with its rows; `empty` is its text if there are none."""

    panel: Panel
    rows: Sequence[PanelRow]
    at: int
    total: int
    empty: str

    @property
    def above(self) -> int:
        """Number of lines before the first row: a title and, except for the log, headings."""
        return 1 if self.panel is Panel.LOG else 2

    @property
    def wanted(self) -> int:
        return self.above + len(self.rows) if self.rows else 2


def draw_screen(screen: ScreenState, news: ScreenData, columns: int, lines: int) -> ScreenFrame:
    """Draw the screen in exactly `lines` lines of at most `columns` columns."""
    if columns < MIN_COLUMNS or lines < MIN_LINES:
        notice = f"Too small: needs {MIN_COLUMNS}x{MIN_LINES}."
        message = [(TextSpan(truncate(notice, columns)),)] if lines else []
        return ScreenFrame(_fill_lines(message, lines))
    above = list(_draw_header(screen, news, columns, lines))
    room = lines - len(above) - 1
    if screen.over is not None:
        body, ages = _draw_dialog(screen, news, columns, room), True
    else:
        body, ages = _draw_panels(screen, news, columns, room)
    frame = [
        *above,
        *_fill_lines(body, room),
        (TextSpan(truncate(_footer_text(screen, columns), columns), DIM),),
    ]
    return ScreenFrame(tuple(frame), ages or _shows_elapsed_time(news))


def render_plain(screen: ScreenState, news: ScreenData, columns: int) -> str:
    """Render all panels with all their rows as text, for terminals without cursor control."""
    parts = [_build_part(panel, screen, news) for panel in screen.panels if panel is not Panel.LOG]
    body = [one for part in parts for one in _draw_panel(part, screen, columns, part.wanted)]
    return ScreenFrame((*_draw_header(screen, news, columns, 99), *body)).text()


def dialog_height(screen: ScreenState, news: ScreenData, columns: int, lines: int) -> int:
    """Return how many lines of a dialog are visible."""
    return max(lines - len(list(_draw_header(screen, news, columns, lines))) - 2, 1)


def _shows_elapsed_time(news: ScreenData) -> bool:
    """Return whether the header shows an elapsed time."""
    return bool(news.trouble or (news.seen and news.seen["service"]))


def _fill_lines(body: Sequence[Line], room: int) -> tuple[Line, ...]:
    return (*body[:room], *((TextSpan(""),) for _ in range(room - len(body))))


def _draw_header(screen: ScreenState, news: ScreenData, columns: int, lines: int) -> Iterator[Line]:
    of = describe_filter(screen, news)
    first = justify_pair(build_title(screen, news), of, columns)
    yield (TextSpan(first, TITLE),)
    if news.trouble:
        old = f" (as of {format_age(news.late)} ago)" if news.seen else ""
        told = wrap_text(sanitize_text(news.trouble) + old, columns)
        most = 3 if lines >= 4 * MIN_LINES else 1
        for text in (*told[: most - 1], " ".join(told[most - 1 :])):
            if text:
                yield (TextSpan(truncate(text, columns), BAD),)
    elif lines >= 2 * MIN_LINES:
        yield _join_facts(list_facts(screen, news, narrow=not first.endswith(of)), columns)


def _join_facts(parts: Sequence[tuple[str, str]], columns: int) -> Line:
    """Join as many facts as fit into one line; the last one is cut."""
    spans: list[TextSpan] = []
    for text, tone in parts:
        before = TextSpan(" · ", DIM) if spans else TextSpan("")
        free = columns - sum(text_width(span.text) for span in spans) - text_width(before.text)
        if free < min(4, text_width(text)):
            break
        spans += [before, TextSpan(truncate(text, free), tone)]
    return tuple(spans) or (TextSpan(""),)


def _footer_text(screen: ScreenState, columns: int) -> str:
    if screen.said:
        return sanitize_text(screen.said)
    if screen.over is not None:
        return dialogs.dialog_hint(screen)
    return _join_hints(
        (*KEY_HINTS[:4], STOP_HINT, *KEY_HINTS[4:]) if screen.console else KEY_HINTS, columns
    )


def _join_hints(hints: Sequence[str], columns: int) -> str:
    """Join as many hints as fit, without cutting one."""
    line = ""
    for hint in hints:
        more = f"{line} · {hint}" if line else hint
        if text_width(more) > columns:
            break
        line = more
    return line


def _draw_dialog(screen: ScreenState, news: ScreenData, columns: int, room: int) -> list[Line]:
    """Draw a dialog from its scroll position."""
    told = dialogs.dialog_lines(screen, news, columns)
    at = getattr(screen.over, "scroll", 0)
    if isinstance(screen.over, RepositoryDialog):
        seen = visible_rows(len(told), room - 1, screen.over.at)
    else:
        first = max(min(at, len(told) - (room - 1)), 0)
        seen = range(first, min(first + room - 1, len(told)))
    picked = screen.over.at if isinstance(screen.over, RepositoryDialog) else -1
    body = [(TextSpan(f"  {told[one]}", PICK if one == picked else ""),) for one in seen]
    return [_draw_rule(dialogs.dialog_title(screen), columns, FOCUS), *body]


def _build_part(panel: Panel, screen: ScreenState, news: ScreenData) -> _PanelPart:
    rows = build_rows(panel, screen, news)
    at = find_selected(panel, rows, screen.picks.get(panel))
    empty = NOT_LOADED if news.seen is None and panel is not Panel.LOG else EMPTY_TEXTS[panel]
    return _PanelPart(panel, rows, at, count_rows(panel, screen, news, rows), empty)


def _draw_panels(
    screen: ScreenState, news: ScreenData, columns: int, room: int
) -> tuple[list[Line], bool]:
    parts = [_build_part(panel, screen, news) for panel in screen.panels]
    focus = screen.panels.index(screen.panel)
    given = panel_heights(room, [part.wanted for part in parts], focus)
    if given is None:
        tabs = _draw_tabs(parts, focus, columns)
        body = [tabs, *_draw_panel(parts[focus], screen, columns, room - 1)]
        return body, _has_elapsed_time(parts[focus])
    drawn = [_draw_panel(p, screen, columns, many) for p, many in zip(parts, given, strict=True)]
    return [one for lines in drawn for one in lines], any(map(_has_elapsed_time, parts))


def _has_elapsed_time(part: _PanelPart) -> bool:
    return any(row.ages for row in part.rows)


def _draw_tabs(parts: Sequence[_PanelPart], focus: int, columns: int) -> Line:
    """Draw all panels as tabs, abbreviated if necessary; the focused one is marked."""
    names = [part.panel.value + (f" {part.total}" if part.total else "") for part in parts]
    if sum(text_width(name) + 3 for name in names) > columns:
        short = [f"{part.panel.value[:1]}{part.total or ''}" for part in parts]
        names = [full if at == focus else short[at] for at, full in enumerate(names)]
    marked = [(f"[{name}]" if at == focus else name) for at, name in enumerate(names)]
    tones = [FOCUS if at == focus else DIM for at in range(len(names))]
    return _join_facts(list(zip(marked, tones, strict=True)), columns)


def _draw_panel(part: _PanelPart, screen: ScreenState, columns: int, room: int) -> list[Line]:
    """Draw a panel: title, column headings, and the rows around the selected one."""
    focus = part.panel is screen.panel
    seen = visible_rows(len(part.rows), room - part.above, part.at)
    rule = _draw_rule(_panel_title(part, screen, seen), columns, FOCUS if focus else RULE)
    if not part.rows:
        return [rule, (TextSpan(truncate(f"  {part.empty}", columns), DIM),)][:room]
    named = COLUMNS[part.panel]
    visible = [part.rows[at] for at in seen]
    widths = fit_columns(named, [row.cells for row in visible], columns - _MARKER_COLUMNS)
    body: list[Line] = [rule, (TextSpan(f"  {format_header(named, widths)}", DIM),)][: part.above]
    for at, row in zip(seen, visible, strict=True):
        picked = focus and at == part.at
        text = f"{'▸' if picked else ' '} {format_row(named, widths, row.cells)}"
        body.append((TextSpan(text, PICK if picked else row.tone),))
    return body[:room]


def _panel_title(part: _PanelPart, screen: ScreenState, seen: range) -> str:
    name = part.panel.value
    if part.panel is Panel.HISTORY:
        return f"{name} of {screen.window}"
    if part.panel is Panel.LOG or part.empty is NOT_LOADED:
        return name
    hidden = len(seen) < part.total and bool(seen)
    return f"{name} {part.total}" + (f", {seen[0] + 1} to {seen[-1] + 1}" if hidden else "")


def _draw_rule(name: str, columns: int, tone: str) -> Line:
    # The focused panel must be visible without colours.
    stroke = "━" if tone == FOCUS else "─"
    text = truncate(f"{stroke * 2} {name} ", columns)
    return (TextSpan(text + stroke * (columns - text_width(text)), tone),)
