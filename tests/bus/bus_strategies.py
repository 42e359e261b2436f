"""Texts that try to break a line."""

from __future__ import annotations

from hypothesis import strategies as st

# Every kind of character that means something to a line, a terminal or a decoder.
_CONTROLS = ["\n", "\r", "\u2028", "\u2029", "\x85", "\x00", "\x1b[2J", "\x7f", "\t"]
_HALVES = ["\ud800", "\udc00", "\ufffe"]
_JSON = ['"', "\\", '"}\n{"id":"', "}", "{}"]
nasty = st.sampled_from([*_CONTROLS, *_HALVES, *_JSON, "ä", "😀"])
texts = st.lists(nasty | st.text(max_size=5), max_size=12).map("".join)
