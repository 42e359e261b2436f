"""The keys, as they are documented."""

from __future__ import annotations

# What is pressed, and what it does. The first word of each is Textual's name of the key.
KEYS: tuple[tuple[str, str], ...] = (
    ("r", "refresh now"),
    ("f", "filter: one repository, or all"),
    ("w", "window of the history: 1h, 24h, 7d, 30d"),
    ("tab, shift+tab", "next panel, previous panel"),
    ("up, down, k, j", "another row; in a text: scroll"),
    ("pageup, pagedown, home, end", "the same, in larger steps"),
    ("enter", "details, with full URLs"),
    ("o", "open the page in the browser"),
    ("s", "stop the task, after a yes (console only)"),
    ("?", "this help"),
    ("escape", "back"),
    ("q, ctrl+c", "quit; agents at work go on"),
)
# How far a key moves; the ends are farther than any list.
STEPS = {
    "up": -1,
    "k": -1,
    "down": 1,
    "j": 1,
    "pageup": -10,
    "pagedown": 10,
    "home": -(10**9),
    "end": 10**9,
}
# At the foot of the screen, as many as fit.
HINTS = ("? help", "q quit", "tab panel", "enter details", "f filter", "o open", "w window")
STOP_HINT = "s stop"
# All of them, by Textual's names.
BOUND = tuple({"?": "question_mark"}.get(key, key) for keys, _ in KEYS for key in keys.split(", "))
