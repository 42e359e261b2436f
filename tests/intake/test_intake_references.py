"""What a text depends on: every form that counts, everything that does not, and any text."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hostler.intake.markdown import (
    MAX_DEPENDENCIES,
    MAX_TEXT_LENGTH,
    SELF_DEPENDENCY,
    TOO_MANY_DEPENDENCIES,
    TextDependencies,
    parse_text_dependencies,
    plain_lines,
)
from hostler.model import RepoName
from hostler.store.tasks import IssueRef

OWN = IssueRef.of(RepoName("Octo", "Stable"), 7)


def short(text: str) -> list[str]:
    """Names, those of the own repository without it."""
    return [name.removeprefix("octo/stable") for name in parse_text_dependencies(text, OWN).names]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Depends on #12", ["#12"]),
        ("depends on #12.", ["#12"]),
        ("It DEPENDS  ON: #12!", ["#12"]),
        ("Blocked by #12", ["#12"]),
        ("Depends on Other/Repo.x#3", ["other/repo.x#3"]),
        ("Depends on #1, #2 and o/r#3", ["#1", "#2", "o/r#3"]),
        ("Depends on #1,#2, and #3; #4 & #5", ["#1", "#2", "#3", "#4", "#5"]),
        ("**Depends on** #1 and __Blocked by:__ #2, _depends on_ #3", ["#1", "#2", "#3"]),
        ("- Depends on #1\n- [ ] blocked by #2", ["#1", "#2"]),
        ("Depends on #1\n\nDepends on #1, #2", ["#1", "#2"]),
        ("Depends on:\n- #1\n* [x] o/r#2 because of it\n2. #3\n\nAlso #4", ["#1", "o/r#2", "#3"]),
        ("## Blocked by\n\n- #1\n- nothing\n- #2", ["#1", "#2"]),
        ("Depends on Octo/STABLE#1", ["#1"]),
        ("Depends on #1 (see #2)", ["#1"]),
        ("```\ncode\n```\nDepends on #1", ["#1"]),
        ("~~~py\n```\nDepends on #1\n~~~\nDepends on #2", ["#2"]),
        ("a `code` and ``more ` code`` depends on #1", ["#1"]),
        ("an odd ` tick: depends on #1", ["#1"]),
        ("<!-- x --> Depends on #1 <!-- and #2 -->", ["#1"]),
        ("`<!--` depends on #1", ["#1"]),
        ("text\n    Depends on #1", ["#1"]),
        ("- a\n\n    - depends on #1", ["#1"]),
    ],
)
def test_words_that_count(text: str, names: list[str]):
    assert short(text) == names


@pytest.mark.parametrize(
    "text",
    [
        "#12",
        "depends #12",
        "See #12, which depends on it",
        "Depends on the weather #12",
        "Depends on #0, #012",
        "Depends on #12th",
        "Depends on #99999999999",
        "Depends on -bad/repo#1",
        "Depends on a/b/c#1",
        "```\nDepends on #1\n```",
        "```\nDepends on #1",
        "  - point\n    ```\n    Depends on #1\n    ```",
        "`Depends on #1`",
        "Depends on `#1`",
        "> Depends on #1",
        "<!-- Depends on #1 -->",
        "<!--\nDepends on #1\n\n-->",
        "<!-- never closed\nDepends on #1",
        "text\n\n    Depends on #1",
        "~~Depends on #1~~",
        "It no longer depends on #1",
        "This is not blocked by #1, and not really blocked by #2",
        "undepends on #1",
    ],
)
def test_words_that_do_not(text: str):
    assert parse_text_dependencies(text, OWN) == TextDependencies()


def test_nothing_depends_on_itself():
    for text in ("Depends on #7 and #8", "Depends on octo/Stable#7, #8"):
        assert parse_text_dependencies(text, OWN) == TextDependencies(
            ("octo/stable#8",), (SELF_DEPENDENCY,)
        )


def test_a_long_list_is_cut():
    text = "Depends on " + ", ".join(f"#{number}" for number in range(100, 200))
    found = parse_text_dependencies(text, OWN)
    assert len(found.names) == MAX_DEPENDENCIES and found.left_out == (TOO_MANY_DEPENDENCIES,)


PIECES = (
    "Depends on |blocked by: |#1|#7|o/r#2|, | and |\n|\n\n|```|`|> |    |- |<!--|-->|~~|**|not "
    "|#|/|é|\0|\u2028"
)
pieces = st.sampled_from(PIECES.split("|"))
texts = st.text() | st.lists(pieces, max_size=30).map("".join)


@given(texts)
@example("`" * 500 + "<!--" * 500)
def test_any_text_can_be_read(text: str):
    found = parse_text_dependencies(text, OWN)
    assert len(set(found.names)) == len(found.names) <= MAX_DEPENDENCIES
    for name in found.names:
        ref = IssueRef.parse(name)
        assert ref is not None and str(ref) == name and ref != OWN


@given(texts)
def test_nothing_counts_in_a_quote_a_comment_or_code(text: str):
    whole = text.replace("-->", "").replace("`", "").replace("~", "")
    quoted = "\n".join(f"> {line}" for line in whole.splitlines())
    for hidden in (quoted, f"<!--{whole}-->", f"~~~~\n{whole}\n~~~~"):
        assert parse_text_dependencies(hidden, OWN) == TextDependencies()


@given(texts)
def test_lines_stay_lines(text: str):
    assert len(plain_lines(text)) == len(text[:MAX_TEXT_LENGTH].splitlines())


@pytest.mark.parametrize("piece", ["`", "``x", "~~", "<!--", "depends on ", "#1,", "a/", "- #1\n"])
def test_a_hostile_text_is_read_like_any_other(piece: str):
    """What takes more steps than the text has letters would not end in time."""
    text = "Depends on #1 and: Depends on: " + piece * MAX_TEXT_LENGTH
    assert parse_text_dependencies(text, OWN).names[0] == "octo/stable#1"
