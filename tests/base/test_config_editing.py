"""One table more or less in any TOML, and every other byte as it was."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from hostler.config.editor import add_table, parse_statements, remove_table
from hostler.config.loader import read_settings
from hostler.config.template import InitAnswers, build_choices, render_template
from hostler.errors import HostlerError
from hostler.model import RepoName

VALUES = {"owner": "octo", "name": "new", "allowed_users": ["ann", 'b"o\\b']}
AWKWARD = [
    "1",
    "1.50",
    "nan",
    '"[repo.x]"',
    "'# no comment'",
    '"""\n[repo.x]\nowner = "inside"\n"""',
    "'''\n\n[[repo.x]]\n# neither\n'''",
    '"""a \\\n  [repo.x] """',
    '""" " "" ]\n} """',
    "[\n  1, # one ]\n\n  2,\n  # [repo.x]\n]",
    '[["""\n]\n"""], [\n]]',
    '{ a = 1, "b.c" = [\n  {d = "}"},\n] }',
    "1979-05-27T07:32:00Z",
    '"\u2028 \x85 é"',
]
KEYS = ["plain", '"quo ted"', "'li.teral'", "a.b", '"repo".x', "dot . ted", "repo_x"]
HEADERS = ["tasks", "agent.claude", 'agent."x.y"', "repo.other", 'repo."other2".labels', "[many]"]
OWN_HEADERS = ["repo.x", 'repo."x"', "'repo' . x"]


@dataclass(frozen=True)
class Block:
    """Some lines, and whether they are of the table to be removed."""

    text: str
    own: bool = False


def comments(least: int = 0) -> st.SearchStrategy[str]:
    words = st.sampled_from(["# [repo.x]", "#", "  # said", '# """', "# a = ["])
    return st.lists(words, min_size=least, max_size=2).map(
        lambda rows: "".join(f"{r}\n" for r in rows)
    )


def pairs(keys: list[str]) -> st.SearchStrategy[str]:
    value = st.tuples(
        st.sampled_from(keys), st.sampled_from(AWKWARD), st.sampled_from(["", " # ]"])
    )
    some = st.lists(value, max_size=3, unique_by=lambda pair: pair[0])
    return some.map(lambda found: "".join(f"{k} = {v}{c}\n" for k, v, c in found))


@st.composite
def others(draw: st.DrawFn) -> Block:
    """A table of somebody else, with what stands directly over it."""
    header = draw(st.sampled_from(HEADERS))
    return Block(f"{draw(comments())}  [{header}]\n{draw(pairs(KEYS))}")


@st.composite
def tables_of_x(draw: st.DrawFn) -> list[Block]:
    """The table, perhaps with inner ones; comments stand directly under it."""
    header = draw(st.sampled_from(OWN_HEADERS))
    body = f'owner = "octo"\n{draw(comments())}{draw(pairs(KEYS))}{draw(comments())}'
    blocks = [Block(f"[{header}] # here\n{body}", own=True)]
    for inner in draw(st.lists(st.sampled_from(["labels", '"la bels"', "a.b"]), unique=True)):
        blocks.append(Block(f"[{header}.{inner}]\n{draw(pairs(KEYS))}", own=True))
    return blocks


@st.composite
def documents(draw: st.DrawFn, *, with_x: bool) -> list[Block]:
    """The root's own keys, then tables in any order."""
    tables = draw(st.lists(others(), max_size=4))
    if with_x:
        tables += draw(tables_of_x())
    root = Block(draw(comments()) + draw(pairs([key for key in KEYS if "repo" not in key])))
    return [root, *draw(st.permutations(tables))]


def written(blocks: list[Block]) -> str:
    return "\n".join(block.text for block in blocks)


def endings(text: str, style: str, last: bool) -> str:
    text = text if last else text.rstrip("\n")
    return text.replace("\n", style)


def valid(text: str) -> dict:
    try:
        return tomllib.loads(text, parse_float=str)
    except tomllib.TOMLDecodeError:
        assume(False)
        raise


def lines(text: str) -> list[str]:
    """The lines that hold something."""
    return [line for line in text.replace("\r\n", "\n").split("\n") if line.strip()]


STYLES = {"style": st.sampled_from(["\n", "\r\n"]), "last": st.booleans()}


@given(blocks=documents(with_x=False), **STYLES)
def test_adding_puts_one_table_behind_everything(blocks, style, last):
    text = endings(written(blocks), style, last)
    wanted = valid(text)
    new = add_table(text, "repo", "x", VALUES)
    assert new.startswith(text)
    wanted.setdefault("repo", {})["x"] = VALUES
    assert tomllib.loads(new, parse_float=str) == wanted
    assert new.count("\r\n") == (new.count("\n") if "\r\n" in text else 0)


@given(blocks=documents(with_x=True), **STYLES)
def test_removing_takes_the_table_and_leaves_every_other_line(blocks, style, last):
    text = endings(written(blocks), style, last)
    wanted = valid(text)
    new = remove_table(text, "repo", "x")
    del wanted["repo"]["x"]
    found = tomllib.loads(new, parse_float=str)
    found.setdefault("repo", {})
    assert found == wanted
    assert lines(new) == [line for block in blocks if not block.own for line in lines(block.text)]


@given(blocks=documents(with_x=False), **STYLES)
def test_adding_and_removing_gives_the_old_text(blocks, style, last):
    text = endings(written(blocks), style, last)
    valid(text)
    again = remove_table(add_table(text, "repo", "x", VALUES), "repo", "x")
    assert again in (text, text + "\n", text + "\r\n")


@given(blocks=documents(with_x=True), **STYLES)
def test_statements_are_the_whole_text(blocks, style, last):
    text = endings(written(blocks), style, last)
    valid(text)
    assert "".join(part.text for part in parse_statements(text)) == text


ANY = st.text(st.sampled_from("[]{}\"'=.#\n\r\t rexpo1,\\"), max_size=40)


@given(ANY)
@example("repo = 1")
@example("[[repo]]")
@example("repo.x = 1\n")
def test_whatever_the_text_it_is_edited_rightly_or_refused(text):
    for edit, wanted in ((add_table, True), (remove_table, False)):
        arguments = (VALUES,) if edit is add_table else ()
        try:
            new = edit(text, "repo", "x", *arguments)
        except HostlerError as error:
            assert error.safe == "The file was not changed."
        else:
            assert ("x" in tomllib.loads(new).get("repo", {})) is wanted


SUPER = '[repo]\ny = { owner = "a" } # y\nx = { owner = "b" } # x\n\n# agents\n[agent.a]\n'
DOTTED = '[repo]\nx.owner = "b"\n\n# of y\ny.owner = "a"\nx.name = "c"\n'
ROOT = '# top\nrepo.x.owner = "b"\nrepo.x.labels.bug = "c"\nother = 1\n'
ALONE = 'repo = { x = { owner = "a", name = "b" } }\nother = 1\n'
NEXT_ONE = '[repo.x]\nowner = "b"\n# of the agent\n[agent.a]\n'


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (SUPER, '[repo]\ny = { owner = "a" } # y\n\n# agents\n[agent.a]\n'),
        (DOTTED, '[repo]\n\n# of y\ny.owner = "a"\n'),
        (ROOT, "# top\nother = 1\n"),
        (ALONE, "other = 1\n"),
        (NEXT_ONE, "# of the agent\n[agent.a]\n"),
        ("[repo.x]", ""),
        ("a = 1\n\n[repo.x]\n", "a = 1\n"),
        ("a = 1\n[repo.x]\n[[repo.x.more]]\n[[repo.x.more]]\nb = 1\n[z]\n", "a = 1\n[z]\n"),
    ],
)
def test_other_ways_to_write_a_table(text, left):
    assert remove_table(text, "repo", "x") == left


@pytest.mark.parametrize(
    "text", ["repo = { x = {}, y = {} }\n", "repo = { x = {}, y = { a = 1 } }"]
)
def test_what_shares_its_lines_is_left_to_a_person(text):
    with pytest.raises(HostlerError, match="other settings share its lines") as caught:
        remove_table(text, "repo", "x")
    assert "by hand" in caught.value.remedy


@pytest.mark.parametrize("text", ["repo = {}\n", "repo = 1\n", "[[repo]]\n", "repo = { y = {} }\n"])
def test_where_no_table_can_follow_a_person_is_told_what_to_add(text):
    with pytest.raises(HostlerError, match="no further table can follow") as caught:
        add_table(text, "repo", "x", VALUES)
    assert '[repo.x]; owner = "octo"; name = "new"' in caught.value.remedy


def test_dotted_and_super_tables_take_another_one():
    for text in ("[repo]\n", DOTTED, "repo.y.owner = 1\n", "[repo.y]\n"):
        assert add_table(text, "repo", "new", VALUES).startswith(text)


def test_a_table_that_is_there_is_not_added_and_an_absent_one_not_removed():
    with pytest.raises(HostlerError, match="already"):
        add_table("[repo.x]\n", "repo", "x", VALUES)
    with pytest.raises(HostlerError, match="There is no"):
        remove_table("[repo.y]\n", "repo", "x")


def test_a_text_that_is_no_toml_is_refused_in_words():
    for text in ("a = \n", "[", "a = 1\rb = 2", "a = " + "[" * 5000):
        with pytest.raises(HostlerError, match="not plain TOML"):
            add_table(text, "repo", "x", VALUES)


def test_the_file_of_init_loses_its_repository_and_gets_another(tmp_path):
    start = InitAnswers(RepoName("octo", "hello"), ("ann",), "claude", "auto")
    text = render_template(build_choices(start))
    less = remove_table(text, "repo", "hello")
    assert "hello" not in less and "# One coding agent" in less
    path = tmp_path / "hostler.toml"
    path.write_text(add_table(less, "repo", "new", VALUES | {"allowed_users": ["ann"]}))
    assert list(read_settings(path).settings.repo) == ["new"]
