"""What is a command, what it says, and whose count: rules under any input."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.forge.actions import add_marker
from hostler.forge.port import ItemKind
from hostler.intake.model import AddFeedback, CommentEvent, RefuseCommand, StoreCommand, ThreadState
from hostler.intake.operator_commands import NOT_OPERATOR_REPLY
from hostler.intake.operator_syntax import (
    InvalidCommand,
    OperatorVerb,
    ParsedCommand,
    command_key,
    has_other_text,
    parse_command,
    quote_text,
    render_usage,
)
from hostler.intake.repo_policy import RepoPolicy
from hostler.intake.rules import decide_on_comment
from hostler.model import RepoName
from hostler.store.inbox import InboxRow
from hostler.store.pull_requests import PullRow, PullStatus
from hostler.store.tasks import Flow, Task, TaskState

REPO = RepoName("octo", "stable")
OPERATIONS = 99
WATCH = RepoPolicy(
    REPO,
    "stable",
    frozenset({"ann", "olga"}),
    operators=frozenset({"olga"}),
    operations_issue=OPERATIONS,
)
SHA = "0123456789abcdef" * 2 + "01234567"


# -- words ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "verb", "arguments"),
    [
        ("/hostler help", OperatorVerb.HELP, {}),
        ("/hostler   status  ", OperatorVerb.STATUS, {}),
        ("/Hostler Stop", OperatorVerb.STOP, {}),
        ("/hostler\tpause", OperatorVerb.PAUSE, {}),
        ("  /hostler why", OperatorVerb.WHY, {}),
        ("Enough.\r\n\r\n/hostler stop\r\nThank you.", OperatorVerb.STOP, {}),
        ("/hostler retry issue=7", OperatorVerb.RETRY, {"issue": "7"}),
        ("/hostler resume pr=12", OperatorVerb.RESUME, {"pr": "12"}),
        (
            f"/hostler unblock pr=12 head_sha={SHA}",
            OperatorVerb.UNBLOCK,
            {"pr": "12", "head_sha": SHA},
        ),
        (f"/hostler unblock head_sha={SHA.upper()}", OperatorVerb.UNBLOCK, {"head_sha": SHA}),
        ("> /hostler stop\n\n/hostler status", OperatorVerb.STATUS, {}),
        ("```\n/hostler stop\n```\n/hostler status", OperatorVerb.STATUS, {}),
    ],
)
def test_a_command_is_understood(text, verb, arguments):
    assert parse_command(text) == ParsedCommand(verb, arguments)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "please /hostler stop",
        "/hostlers stop",
        "/hostler-stop",
        "hostler stop",
        "- /hostler stop",
        "> /hostler stop",
        "`/hostler stop`",
        "```\n/hostler stop\n```",
        "```\n/hostler stop",
        "~~~ sh\n/hostler stop\n~~~",
        "    /hostler stop",
        "<!--\n/hostler stop\n-->",
        "~~/hostler stop~~",
    ],
)
def test_words_without_a_command_are_words(text):
    assert parse_command(text) is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("/hostler", "command is missing"),
        ("/hostler explode", "Unknown command `explode`"),
        ("/hostler `stop`", "Unknown command"),
        ("/hostler stop now", "Unexpected argument `now`. Usage: `/hostler stop`."),
        ("/hostler stop pr=1", "Unexpected argument `pr=1`"),
        ("/hostler retry issue=7 issue=8", "`issue` is given twice"),
        ("/hostler retry issue=7 issue=7", "`issue` is given twice"),
        ("/hostler retry pr=7", "Usage: `/hostler retry [issue=]`"),
        ("/hostler retry 7", "Unexpected argument `7`"),
        ("/hostler retry issue=#7", "not `#7`"),
        ("/hostler retry issue=", "not nothing"),
        ("/hostler retry issue=0", "not `0`"),
        ("/hostler retry issue=-1", "not `-1`"),
        ("/hostler retry issue=٣", "not `٣`"),
        ("/hostler retry issue=99999999999999999999", "must be a number"),
        ("/hostler unblock head_sha=abc123", "full commit SHA"),
        ("/hostler unblock pr = 7", "Unexpected argument `pr`"),
        ("/hostler stop\n/hostler status", "only one command"),
        ("/hostler stop\n/hostler stop", "only one command"),
    ],
)
def test_a_mistake_is_named_with_what_is_allowed(text, why):
    found = parse_command(text)
    assert isinstance(found, InvalidCommand)
    assert why in found.why


@given(st.text())
def test_no_text_breaks_the_reader(text):
    parse_command(text)
    parse_command(f"/hostler {text}")


@given(st.sampled_from(OperatorVerb), st.text(), st.text())
def test_a_command_is_found_in_any_plain_surroundings(verb, before, after):
    """Whatever people write around it, as long as it opens no code, quote or comment."""
    plain = [w.translate(str.maketrans("", "", "`~<>/")).strip() for w in (before, after)]
    assert parse_command(f"{plain[0]}\n\n/hostler {verb}\n\n{plain[1]}") == ParsedCommand(verb)


@given(st.text())
def test_quoted_words_name_nobody_and_stay_on_one_line(text):
    shown = quote_text(text)
    assert shown == "nothing" or (shown.count("`") == 2 and shown[0] == shown[-1] == "`")
    assert len(shown.splitlines()) == 1
    assert len(shown) <= 62


@given(st.text())
def test_what_we_say_ourselves_is_never_a_command(text):
    mistake = parse_command(f"/hostler {text}")
    why = mistake.why if isinstance(mistake, InvalidCommand) else ""
    for ours in (render_usage(), f"@olga: {why}", NOT_OPERATOR_REPLY.format(who="eve")):
        assert parse_command(ours) is None


def test_another_version_is_another_command():
    first = command_key(REPO, "issue_comment:7:2026-01-01T00:00:00Z:aa")
    assert first != command_key(REPO, "issue_comment:7:2026-01-01T00:00:00Z:bb")
    assert first != command_key(RepoName("octo", "barn"), "issue_comment:7:2026-01-01T00:00:00Z:aa")
    assert first == command_key(REPO, "issue_comment:7:2026-01-01T00:00:00Z:aa")


def test_help_names_every_verb_and_every_argument():
    text = render_usage()
    for verb in OperatorVerb:
        assert f"`/hostler {verb}" in text
    for key in ("[pr=]", "[head_sha=]", "[issue=]"):
        assert key in text


# -- people and places ------------------------------------------------------------------------


def remark(author="olga", body="/hostler stop", number=1, kind=ItemKind.ISSUE_COMMENT, **more):
    row = InboxRow("octo/stable", "k1", kind.value, number, 70, author, "2026-01-01", "{}")
    return CommentEvent(row, body, **more)


def task(state=TaskState.BLOCKED):
    fields = {"repo_full_name": "octo/stable", "issue_number": 1, "flow": Flow.BUGFIX}
    return Task(
        id="t1", project="stable", title="T", author="ann", state=state, state_since="", order=1,
        **fields,
    )  # fmt: skip


TRACKED = ThreadState(tasks=(task(),))


def effect_of(said, known=TRACKED):
    return [type(one) for one in decide_on_comment(said, known, WATCH).effects]


@pytest.mark.parametrize("state", TaskState)
def test_an_operators_command_counts_in_every_state_of_the_task(state):
    assert effect_of(remark(), ThreadState(tasks=(task(state),))) == [StoreCommand]
    pull = PullRow("octo/stable", 5, 1, "t1", "b", PullStatus.CLOSED)
    known = ThreadState(pull=pull, pull_task=task(state))
    assert effect_of(remark("OLGA", number=5), known) == [StoreCommand]


@pytest.mark.parametrize("kind", [ItemKind.ISSUE_COMMENT, ItemKind.REVIEW_COMMENT, ItemKind.REVIEW])
def test_a_command_counts_wherever_words_do(kind):
    assert effect_of(remark(kind=kind)) == [StoreCommand]


@pytest.mark.parametrize("who", ["ann", "eve", "olga2", ""])
def test_anybody_else_is_refused(who):
    assert effect_of(remark(who)) == [RefuseCommand]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (remark("renovate[bot]"), "is a bot"),
        (remark("olga[bot]"), "is a bot"),
        (remark(body=add_marker("/hostler stop", "t-1")), "Hostler wrote it"),
        (remark(kind=ItemKind.REVIEW, verdict="DISMISSED"), "asks for nothing"),
    ],
)
def test_bots_and_our_own_words_are_not_even_refused(said, why):
    decision = decide_on_comment(said, TRACKED, WATCH)
    assert decision.effects == ()
    assert why in decision.reason


def test_elsewhere_nobody_is_heard_or_answered():
    for who in ("olga", "eve"):
        decision = decide_on_comment(remark(who), ThreadState(), WATCH)
        assert (decision.effects, decision.waits) == ((), False)
        assert decide_on_comment(remark(who), ThreadState(pull_opening=True), WATCH).waits


def test_the_operations_issue_needs_no_task_but_a_first_reading():
    said = remark(number=OPERATIONS)
    assert decide_on_comment(said, ThreadState(), WATCH).waits
    assert effect_of(said, ThreadState(operations_begun=True)) == [StoreCommand]
    assert effect_of(remark("eve", number=OPERATIONS), ThreadState(operations_begun=True)) == [
        RefuseCommand
    ]


def test_an_older_version_is_no_command_any_more():
    decision = decide_on_comment(remark(), ThreadState(tasks=(task(),), is_newest=False), WATCH)
    assert decision.effects == ()


bodies = st.one_of(
    st.sampled_from(["/hostler stop", "/hostler", "/hostler stop now", "hi\n/hostler why"]),
    st.text().map(lambda text: f"/hostler {text}"),
)


@given(
    st.sampled_from(["olga", "ann", "eve", "x[bot]"]),
    bodies,
    st.sampled_from(TaskState),
    st.booleans(),
)
def test_a_command_is_never_words_for_an_agent(who, body, state, begun):
    known = ThreadState(tasks=(task(state),), operations_begun=begun)
    heard = AddFeedback in effect_of(remark(who, body), known)
    # But for other words beside it, of somebody who is allowed and gives no commands.
    assert not heard or (who == "ann" and has_other_text(body))
