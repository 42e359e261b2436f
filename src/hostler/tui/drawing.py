"""The whole screen as lines of spans, from where a person stands and what is known. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hostler.tui import header, texts
from hostler.tui.fitting import cut, shown, width, wrapped
from hostler.tui.keymap import HINTS, STOP_HINT
from hostler.tui.layout import heights, window
from hostler.tui.numbers import passed
from hostler.tui.rows import (
    BAD,
    COLUMNS,
    DIM,
    EMPTY,
    NOTHING_SEEN,
    Row,
    place_of,
    rows_of,
    total_of,
)
from hostler.tui.state import Choice, News, Panel, Screen
from hostler.tui.tables import fitted, head, line, pair

TITLE, RULE, FOCUS, PICK = "title", "rule", "focus", "pick"
NARROWEST, LOWEST = 20, 5
_MARK = 2


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a line, and how it is meant."""

    text: str
    tone: str = ""


Line = tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Frame:
    """All lines of a screen. `ages`: a time on it goes on."""

    lines: tuple[Line, ...]
    ages: bool = False

    def text(self) -> str:
        """Without tones."""
        return "\n".join("".join(span.text for span in one).rstrip() for one in self.lines)


@dataclass(frozen=True, slots=True)
class _Part:
    """One panel with its rows."""

    panel: Panel
    rows: Sequence[Row]
    at: int
    total: int
    # What stands there without rows.
    empty: str

    @property
    def above(self) -> int:
        """Lines before the first row: a title, and the names of columns. A log has one column."""
        return 1 if self.panel is Panel.LOG else 2

    @property
    def wanted(self) -> int:
        return self.above + len(self.rows) if self.rows else 2


def draw(screen: Screen, news: News, columns: int, lines: int) -> Frame:
    """Everything, in exactly so many lines of at most so many columns."""
    if columns < NARROWEST or lines < LOWEST:
        words = [(Span(cut("More room, please.", columns)),)] if lines else []
        return Frame(_filled(words, lines))
    above = list(_above(screen, news, columns, lines))
    room = lines - len(above) - 1
    if screen.over is not None:
        body, ages = _over(screen, news, columns, room), True
    else:
        body, ages = _panels(screen, news, columns, room)
    frame = [*above, *_filled(body, room), (Span(cut(_below(screen, columns), columns), DIM),)]
    return Frame(tuple(frame), ages or _counts(news))


def plain_text(screen: Screen, news: News, columns: int) -> str:
    """All panels with all their rows, for where nothing can be drawn."""
    parts = [_part(panel, screen, news) for panel in screen.panels if panel is not Panel.LOG]
    body = [one for part in parts for one in _panel(part, screen, columns, part.wanted)]
    return Frame((*_above(screen, news, columns, 99), *body)).text()


def text_room(screen: Screen, news: News, columns: int, lines: int) -> int:
    """How many lines of a text over the panels are seen at once."""
    return max(lines - len(list(_above(screen, news, columns, lines))) - 2, 1)


def _counts(news: News) -> bool:
    """Whether the lines above tell how long something goes on."""
    return bool(news.trouble or (news.seen and news.seen["service"]))


def _filled(body: Sequence[Line], room: int) -> tuple[Line, ...]:
    return (*body[:room], *((Span(""),) for _ in range(room - len(body))))


def _above(screen: Screen, news: News, columns: int, lines: int) -> Iterator[Line]:
    of = header.chosen(screen, news)
    first = pair(header.title(screen, news), of, columns)
    yield (Span(first, TITLE),)
    if news.trouble:
        old = f" (as of {passed(news.late)} ago)" if news.seen else ""
        told = wrapped(shown(news.trouble) + old, columns)
        most = 3 if lines >= 4 * LOWEST else 1
        for text in (*told[: most - 1], " ".join(told[most - 1 :])):
            if text:
                yield (Span(cut(text, columns), BAD),)
    elif lines >= 2 * LOWEST:
        yield _joined(header.facts(screen, news, narrow=not first.endswith(of)), columns)


def _joined(parts: Sequence[tuple[str, str]], columns: int) -> Line:
    """Facts on one line, as many as fit; the last of them is cut."""
    spans: list[Span] = []
    for text, tone in parts:
        before = Span(" · ", DIM) if spans else Span("")
        free = columns - sum(width(span.text) for span in spans) - width(before.text)
        if free < min(4, width(text)):
            break
        spans += [before, Span(cut(text, free), tone)]
    return tuple(spans) or (Span(""),)


def _below(screen: Screen, columns: int) -> str:
    if screen.said:
        return shown(screen.said)
    if screen.over is not None:
        return texts.hint_of(screen)
    return _whole((*HINTS[:4], STOP_HINT, *HINTS[4:]) if screen.console else HINTS, columns)


def _whole(hints: Sequence[str], columns: int) -> str:
    """As many hints as fit, none of them cut."""
    line = ""
    for hint in hints:
        more = f"{line} · {hint}" if line else hint
        if width(more) > columns:
            break
        line = more
    return line


def _over(screen: Screen, news: News, columns: int, room: int) -> list[Line]:
    """A text over everything, from where it is scrolled to."""
    told = texts.lines_of(screen, news, columns)
    at = getattr(screen.over, "scroll", 0)
    if isinstance(screen.over, Choice):
        seen = window(len(told), room - 1, screen.over.at)
    else:
        first = max(min(at, len(told) - (room - 1)), 0)
        seen = range(first, min(first + room - 1, len(told)))
    picked = screen.over.at if isinstance(screen.over, Choice) else -1
    body = [(Span(f"  {told[one]}", PICK if one == picked else ""),) for one in seen]
    return [_rule(texts.title_of(screen), columns, FOCUS), *body]


def _part(panel: Panel, screen: Screen, news: News) -> _Part:
    rows = rows_of(panel, screen, news)
    at = place_of(panel, rows, screen.picks.get(panel))
    empty = NOTHING_SEEN if news.seen is None and panel is not Panel.LOG else EMPTY[panel]
    return _Part(panel, rows, at, total_of(panel, screen, news, rows), empty)


def _panels(screen: Screen, news: News, columns: int, room: int) -> tuple[list[Line], bool]:
    parts = [_part(panel, screen, news) for panel in screen.panels]
    focus = screen.panels.index(screen.panel)
    given = heights(room, [part.wanted for part in parts], focus)
    if given is None:
        tabs = _tabs(parts, focus, columns)
        body = [tabs, *_panel(parts[focus], screen, columns, room - 1)]
        return body, _ages(parts[focus])
    drawn = [_panel(p, screen, columns, many) for p, many in zip(parts, given, strict=True)]
    return [one for lines in drawn for one in lines], any(map(_ages, parts))


def _ages(part: _Part) -> bool:
    return any(row.ages for row in part.rows)


def _tabs(parts: Sequence[_Part], focus: int, columns: int) -> Line:
    """All panels on one line, in short where it is narrow; the one with the focus is marked."""
    names = [part.panel.value + (f" {part.total}" if part.total else "") for part in parts]
    if sum(width(name) + 3 for name in names) > columns:
        short = [f"{part.panel.value[:1]}{part.total or ''}" for part in parts]
        names = [full if at == focus else short[at] for at, full in enumerate(names)]
    marked = [(f"[{name}]" if at == focus else name) for at, name in enumerate(names)]
    tones = [FOCUS if at == focus else DIM for at in range(len(names))]
    return _joined(list(zip(marked, tones, strict=True)), columns)


def _panel(part: _Part, screen: Screen, columns: int, room: int) -> list[Line]:
    """A title, the names of columns, and the rows around the chosen one."""
    focus = part.panel is screen.panel
    seen = window(len(part.rows), room - part.above, part.at)
    rule = _rule(_name(part, screen, seen), columns, FOCUS if focus else RULE)
    if not part.rows:
        return [rule, (Span(cut(f"  {part.empty}", columns), DIM),)][:room]
    named = COLUMNS[part.panel]
    visible = [part.rows[at] for at in seen]
    widths = fitted(named, [row.cells for row in visible], columns - _MARK)
    body: list[Line] = [rule, (Span(f"  {head(named, widths)}", DIM),)][: part.above]
    for at, row in zip(seen, visible, strict=True):
        picked = focus and at == part.at
        text = f"{'▸' if picked else ' '} {line(named, widths, row.cells)}"
        body.append((Span(text, PICK if picked else row.tone),))
    return body[:room]


def _name(part: _Part, screen: Screen, seen: range) -> str:
    name = part.panel.value
    if part.panel is Panel.HISTORY:
        return f"{name} of {screen.window}"
    if part.panel is Panel.LOG or part.empty is NOTHING_SEEN:
        return name
    hidden = len(seen) < part.total and bool(seen)
    return f"{name} {part.total}" + (f", {seen[0] + 1} to {seen[-1] + 1}" if hidden else "")


def _rule(name: str, columns: int, tone: str) -> Line:
    # The one with the focus can be told apart without colours too.
    stroke = "━" if tone == FOCUS else "─"
    text = cut(f"{stroke * 2} {name} ", columns)
    return (Span(text + stroke * (columns - width(text)), tone),)
