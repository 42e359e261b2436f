"""Operator commands from comment to effect and reply, on a database and a GitHub in memory."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
from intake_yard import BUGFIX, IGNORE
from operator_bench import BOT, OLGA, STRANGER, Bench, bench

from hostler.errors import ConfigError, StoreBusy, Unreachable
from hostler.forge.actions import add_marker
from hostler.forge.github.polling.context import PollContext
from hostler.forge.github.polling.poller import Poller, PollPlan
from hostler.forge.port import ItemKind
from hostler.intake.operator_commands import reply_token
from hostler.intake.operator_syntax import OperatorVerb, parse_command
from hostler.service.context import Presence
from hostler.service.operator_commands import executor
from hostler.service.operator_commands.executor import (
    GITHUB_COMMANDS,
    READ_COMMANDS,
    WRITE_COMMANDS,
)
from hostler.service.operator_commands.replies import render_why
from hostler.service.scheduling.admission import GOVERNOR_GATES
from hostler.service.scheduling.explain import TURN_GATE, Explanation
from hostler.service.scheduling.gates import GateDenial, HomeGate
from hostler.store.operator import ALL, CommandStatus, all_pauses, pause
from hostler.store.pull_requests import PullStatus
from hostler.store.tasks import TaskState
from hostler.telemetry.logs import LogDestinations
from hostler.telemetry.metrics import metrics
from hostler.telemetry.names import OPERATOR_COMMANDS_APPLIED, OPERATOR_COMMANDS_SEEN
from hostler.workflows.commands import RESTART_SCOPES, current_restart, finish_restart
from hostler.workflows.effects import handle_settled_write

SHA = "1" * 40


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Bench]:
    with bench(tmp_path) as made:
        yield made


def with_task(yard: Bench, **fields: object) -> int:
    """The issue of a task."""
    number = yard.file("Crash", "ann", BUGFIX)
    yard.poll()
    if fields:
        yard.set(yard.task(), **fields)
    return number


def with_pull(yard: Bench) -> int:
    with_task(yard)
    return yard.open_pull(yard.task())


def block(yard: Bench, pull: int | None = None) -> None:
    yard.set(yard.task(), state=TaskState.BLOCKED, reason="The push was refused.")
    if pull is not None:
        with yard.store.write() as tx:
            tx.constant("UPDATE pull_requests SET status = 'blocked'")


def outcome(yard: Bench) -> tuple[str, str]:
    """The last command's status and its reply, of which there is one."""
    row = yard.row()
    (reply,) = [one for one in yard.replies() if one.token == reply_token(row.command_key)]
    assert (reply.number, reply.lane) == (row.thread_number, "operator")
    assert reply.body == f"@{row.actor}: {row.result}"
    assert parse_command(reply.body) is None
    return row.status, row.result


def test_every_verb_is_carried_out_by_somebody():
    verbs = [*READ_COMMANDS, *WRITE_COMMANDS, *GITHUB_COMMANDS]
    assert sorted(verbs) == sorted(OperatorVerb)
    assert len(verbs) == len(set(verbs))


# -- verbs ------------------------------------------------------------------------------------


def test_help_lists_the_verbs(yard):
    yard.command(yard.operations, "/hostler help")
    status, text = outcome(yard)
    assert status == "applied"
    assert all(f"/hostler {verb}" in text for verb in OperatorVerb)


def test_status_tells_of_this_repository(yard):
    number = with_task(yard, state=TaskState.BLOCKED, reason="Ask @everyone about `it`.")
    with yard.store.write() as tx:
        pause(tx, ALL, "ann", "a release")
    yard.command(yard.operations, "/hostler status")
    status, text = outcome(yard)
    assert status == "applied"
    assert "- tasks: 1 blocked" in text
    assert f"- needs a person: `#{number}` (bugfix), blocked: `Ask @everyone about 'it'.`" in text
    assert "- paused: `Everything was paused by ann: a release`" in text


def test_why_tells_what_holds_the_task_of_the_thread(yard):
    number = with_task(yard)
    with yard.store.write() as tx:
        pause(tx, "project:stable", "ann", "a release")
    yard.command(number, "/hostler why")
    status, text = outcome(yard)
    assert status == "applied"
    assert f"`#{number}` (bugfix) is queued." in text
    assert "- gate: `paused`" in text
    yard.set(yard.task(), state=TaskState.NEEDS_INPUT, question="Which one?")
    yard.command(number, "/hostler why")
    assert "Which one?" in outcome(yard)[1]


@pytest.mark.parametrize(
    "gate", [TURN_GATE, HomeGate.DISK, HomeGate.BUDGET, *sorted(GOVERNOR_GATES)]
)
def test_why_names_no_folder_sum_account_or_other_work_where_all_can_read_it(yard, gate):
    with_task(yard)
    held = GateDenial(gate, "secret:account has spent 12 USD in /home/ann.", "Ask /home/ann.")
    text = render_why(Explanation(yard.task(), Presence(), waits=True, denial=held))
    assert f"- gate: `{gate}`" in text
    assert not any(word in text for word in ("secret", "USD", "ann"))


def test_stop_is_final_until_a_person_says_otherwise(yard):
    number = with_task(yard)
    yard.command(number, "/hostler stop")
    assert outcome(yard)[0] == "applied"
    stopped = yard.task()
    assert (stopped.state, stopped.reason) == (TaskState.STOPPED, f"Stopped by {OLGA}.")
    yard.say(number, "please go on", by="ann")
    yard.poll()
    assert yard.task().state is TaskState.STOPPED
    yard.command(number, "/hostler resume")
    assert outcome(yard)[0] == "applied"
    assert yard.task().state is TaskState.QUEUED


def test_what_cannot_be_stopped_says_so(yard):
    number = with_task(yard, state=TaskState.DONE)
    yard.command(number, "/hostler stop")
    assert outcome(yard) == (
        "failed",
        f"Task {yard.task().id} is done and cannot be stopped. Nothing was changed.",
    )


def test_retry_begins_anew_here_or_for_the_issue_that_is_named(yard):
    number = with_task(yard, state=TaskState.FAILED, attempt=3)
    yard.command(number, "/hostler retry")
    assert (outcome(yard)[0], yard.task().state, yard.task().attempt) == ("applied", "queued", 0)
    yard.set(yard.task(), state=TaskState.FAILED, attempt=3)
    yard.command(yard.operations, f"/hostler retry issue={number}")
    assert (outcome(yard)[0], yard.task().state, yard.task().attempt) == ("applied", "queued", 0)
    yard.command(yard.operations, "/hostler retry issue=4711")
    assert outcome(yard) == ("failed", "Issue 4711 has no task. Nothing was changed.")


def test_unblock_lets_a_pull_request_go_on_with_what_was_said_meanwhile(yard):
    pull = with_pull(yard)
    block(yard, pull)
    yard.say(pull, "Please add a line.", by="ann")
    yard.poll()
    assert yard.waiting(yard.task()) == []
    yard.command(pull, "/hostler unblock")
    assert outcome(yard)[0] == "applied"
    assert yard.pull(pull).status is PullStatus.AWAITING_FEEDBACK
    assert yard.task().state is TaskState.QUEUED
    assert len(yard.waiting(yard.task())) == 1


def test_unblock_wants_the_head_that_was_seen(yard):
    pull = with_pull(yard)
    block(yard, pull)
    yard.command(yard.operations, f"/hostler unblock pr={pull} head_sha={'2' * 40}")
    status, text = outcome(yard)
    assert (status, yard.task().state) == ("failed", TaskState.BLOCKED)
    assert f"is {SHA}, not" in text
    yard.command(yard.operations, f"/hostler unblock pr={pull} head_sha={SHA}")
    assert (outcome(yard)[0], yard.task().state) == ("applied", TaskState.AWAITING_FEEDBACK)
    yard.command(pull, "/hostler unblock")
    assert outcome(yard)[0] == "failed"
    assert "It is not blocked" in outcome(yard)[1]


def test_unblock_queues_a_task_without_a_pull_request(yard):
    number = with_task(yard)
    block(yard)
    yard.command(number, "/hostler unblock")
    assert (outcome(yard)[0], yard.task().state) == ("applied", TaskState.QUEUED)


@pytest.mark.parametrize("named", [True, False])
def test_resume_takes_back_a_close(yard, named):
    pull = with_pull(yard)
    yard.change(pull, state="closed")
    yard.poll()
    assert yard.task().state is TaskState.STOPPED
    text = f"/hostler resume pr={pull}" if named else "/hostler resume"
    yard.command(yard.operations if named else pull, text)
    assert outcome(yard)[0] == "failed"
    assert "Reopen it there first." in outcome(yard)[1]
    yard.change(pull, state="open")
    yard.command(yard.operations if named else yard.task().number, text)
    assert (outcome(yard)[0], yard.task().state) == ("applied", TaskState.AWAITING_FEEDBACK)
    yard.command(pull, "/hostler resume")
    assert outcome(yard) == ("applied", f"Pull request `#{pull}` is listened to already.")


def test_pause_holds_this_repository_until_it_is_unpaused(yard):
    for word, held in (("pause", True), ("pause", True), ("unpause", False), ("unpause", False)):
        yard.command(yard.operations, f"/hostler {word}")
        assert outcome(yard)[0] == "applied"
        with yard.store.read() as tx:
            assert ("project:stable" in all_pauses(tx)) is held
    texts = [row.result for row in yard.rows()]
    assert ["already" in texts[1], "goes on" in texts[2], "was not" in texts[3]] == [True] * 3


def test_a_pause_of_everything_is_not_lifted_from_here(yard):
    with yard.store.write() as tx:
        pause(tx, ALL, "ann", "")
    yard.command(yard.operations, "/hostler unpause")
    assert "stays paused" in outcome(yard)[1]
    with yard.store.read() as tx:
        assert ALL in all_pauses(tx)


def test_a_restart_is_asked_for_once_and_answered_when_it_is_over(yard):
    yard.command(yard.operations, "/hostler restart")
    first = yard.row()
    assert (first.status, yard.replies()) == (CommandStatus.WAITING, [])
    yard.command(yard.operations, "/hostler restart")
    assert outcome(yard) == ("failed", "A restart is already under way. Nothing was changed.")
    with yard.store.write(*RESTART_SCOPES) as tx:
        assert current_restart(tx).command_key == first.command_key
        finish_restart(tx, ok=True)
    yard.poll()
    assert [one.body for one in yard.replies()][1:] == [f"@{OLGA}: Restarted."]
    yard.command(yard.operations, "/hostler restart")
    assert yard.row().status is CommandStatus.WAITING


@pytest.mark.parametrize("text", ["why", "stop", "retry", "unblock", "resume", "resume pr=4711"])
def test_the_operations_issue_has_no_task_of_its_own(yard, text):
    yard.command(yard.operations, f"/hostler {text}")
    assert outcome(yard)[0] == "failed"
    assert "Nothing was changed." in outcome(yard)[1]


# -- people, edits, places --------------------------------------------------------------------


def test_a_mistake_is_answered_and_nothing_is_done(yard):
    number = with_task(yard)
    before = metrics.value(OPERATOR_COMMANDS_SEEN, verb="unknown")
    yard.command(number, "/hostler stop now")
    status, text = outcome(yard)
    assert (status, yard.task().state) == ("refused", TaskState.QUEUED)
    assert "Usage: `/hostler stop`." in text
    assert metrics.value(OPERATOR_COMMANDS_SEEN, verb="unknown") == before + 1


def test_strangers_are_refused_once_per_thread(yard):
    number = with_task(yard)
    pull = yard.open_pull(yard.task())
    for place in (number, number, pull, pull):
        for who in (STRANGER, "ann"):
            yard.command(place, "/hostler stop", by=who)
    assert [one.number for one in yard.replies()] == [number, pull]
    assert {(row.status, row.result) for row in yard.rows()} == {("refused", "Not an operator.")}
    assert yard.task().state is TaskState.AWAITING_FEEDBACK


def test_other_words_of_somebody_who_gives_no_commands_are_heard(yard):
    number = with_task(yard, state=TaskState.NEEDS_INPUT, question="Tabs?")
    yard.command(number, "Please use tabs.\n\n/hostler retry", by="ann")
    yard.command(number, "And never divide by zero.\n\n/hostler retry", by="ann")
    assert len(yard.waiting(yard.task())) == 2 and yard.task().state is TaskState.QUEUED
    assert [row.status for row in yard.rows()] == ["refused", "refused"]
    assert len(yard.replies()) == 1
    yard.command(number, "/hostler retry", by="ann")
    assert len(yard.waiting(yard.task())) == 2


def test_words_of_an_operator_beside_a_command_are_no_work(yard):
    number = with_task(yard)
    yard.command(number, "I wonder.\n\n/hostler status")
    assert outcome(yard)[0] == "applied" and yard.waiting(yard.task()) == []


@pytest.mark.parametrize("incremental", [True, False, "shadow"])
def test_what_was_commanded_long_before_there_was_a_task_is_history(yard, incremental):
    """Also where threads are read whole each time."""
    tap = PollContext(
        yard.store, yard.hub, yard.name, settled=handle_settled_write, scopes=("outbox", "tasks")
    )
    yard.poller = Poller(tap, PollPlan(operations=yard.operations, incremental=incremental))
    number = yard.file("Crash", "ann")
    for text in ("/hostler restart", "/hostler pause"):
        yard.say(number, text, OLGA)
    yard.poll()
    yard.clock.advance(400 * 86_400)
    yard.label(number, BUGFIX, "ann")
    for _ in range(3):
        yard.poll()
    assert yard.task().state is TaskState.QUEUED and yard.rows() == []
    yard.command(number, "/hostler pause")
    assert outcome(yard)[0] == "applied"


def test_a_command_said_with_the_label_counts(yard):
    number = yard.file("Crash", "ann", BUGFIX)
    yard.command(number, "/hostler status")
    assert outcome(yard)[0] == "applied"


def test_trouble_of_the_service_is_not_told_in_its_words_where_all_can_read(yard, monkeypatch):
    number = with_task(yard)

    def fail(*_):
        raise ConfigError(Path("/home/ann/governor.json"), [])

    monkeypatch.setitem(READ_COMMANDS, OperatorVerb.WHY, fail)
    yard.command(number, "/hostler why")
    status, text = outcome(yard)
    assert status == "failed" and "/home" not in text and "hostler doctor" in text


def test_a_restart_that_was_only_asked_for_is_not_called_applied(yard):
    lines = StringIO()
    yard.operator = executor.CommandExecutor(
        yard.post, LogDestinations(yard.clock, None, terminal=lines).log
    )
    yard.command(yard.operations, "/hostler restart")
    assert "operator_command_seen" in lines.getvalue()
    assert "operator_command_applied" not in lines.getvalue()


@pytest.mark.parametrize("who", [BOT, "olga[bot]"])
def test_bots_are_not_even_refused(yard, who):
    yard.command(with_task(yard), "/hostler stop", by=who)
    assert (yard.rows(), yard.replies()) == ([], [])


def test_what_we_wrote_is_no_command_even_with_an_operators_account(yard):
    yard.command(with_task(yard), add_marker("/hostler stop", "lost-1"))
    assert (yard.rows(), yard.replies()) == ([], [])


def test_an_edit_is_a_new_command_and_the_old_one_stays_done(yard):
    comment = yard.command(yard.operations, "/hostler pause")
    yard.tick()
    yard.hub.edit(ItemKind.ISSUE_COMMENT, comment, "/hostler status")
    yard.poll()
    yard.poll()
    assert [(row.verb, row.status) for row in yard.rows()] == [
        ("pause", "applied"),
        ("status", "applied"),
    ]
    assert len({row.command_key for row in yard.rows()}) == len(yard.replies()) == 2


def test_words_edited_into_a_command_are_not_told_and_back_again_they_are(yard):
    pull = with_pull(yard)
    comment = yard.say(pull, "Use tabs.", by="ann")
    yard.poll()
    assert len(yard.waiting(yard.task())) == 1
    for text, told in (("/hostler stop", 0), ("Use spaces.", 1)):
        yard.tick()
        yard.hub.edit(ItemKind.ISSUE_COMMENT, comment, text)
        yard.poll()
        assert len(yard.waiting(yard.task())) == told
    # Nobody who may command has said it.
    assert yard.task().state is TaskState.QUEUED


def test_commands_are_heard_while_people_have_the_work(yard):
    number = with_task(yard)
    yard.label(number, IGNORE, "ann")
    yard.poll()
    assert yard.task().state is TaskState.STOPPED
    yard.command(number, "/hostler why")
    assert outcome(yard)[0] == "applied"


def test_a_command_elsewhere_is_nothing(yard):
    number = yard.file("No label", "ann")
    yard.command(number, "/hostler status")
    assert (yard.rows(), yard.replies()) == ([], [])


def test_history_of_the_operations_issue_is_not_carried_out(tmp_path):
    with bench(tmp_path, begun=False) as yard:
        yard.say(yard.operations, "/hostler pause", by=OLGA)
        yard.poll()
        yard.wake()
        yard.poll()
        assert (yard.rows(), yard.replies()) == ([], [])
        yard.command(yard.operations, "/hostler status")
        assert [row.verb for row in yard.rows()] == ["status"]


# -- trouble ----------------------------------------------------------------------------------


def test_a_command_that_breaks_is_answered_and_keeps_no_other_one_back(yard, monkeypatch):
    def broken(*_args):
        raise ZeroDivisionError

    monkeypatch.setitem(executor.WRITE_COMMANDS, OperatorVerb.PAUSE, broken)
    before = metrics.value(OPERATOR_COMMANDS_APPLIED, verb="pause")
    yard.say(yard.operations, "/hostler pause", by=OLGA)
    yard.say(yard.operations, "/hostler status", by=OLGA)
    yard.poll()
    assert [(row.verb, row.status) for row in yard.rows()] == [
        ("pause", "failed"),
        ("status", "applied"),
    ]
    assert "Something broke here" in yard.replies()[0].body
    assert len(yard.replies()) == 2
    assert metrics.value(OPERATOR_COMMANDS_APPLIED, verb="pause") == before


def test_a_command_waits_for_a_github_that_does_not_answer_but_not_for_ever(yard, monkeypatch):
    pull = with_pull(yard)
    block(yard, pull)

    def silent(_number):
        raise Unreachable("GET pull", "down")

    with monkeypatch.context() as patch:
        patch.setattr(yard.hub, "pull", silent)
        yard.say(pull, "/hostler unblock", by=OLGA)
        yard.say(pull, "/hostler status", by=OLGA)
        yard.read()
        yard.take()
        yard.operator.execute_pending()
        assert [row.status for row in yard.rows()] == ["seen", "applied"]
        yard.clock.advance(3600)
        yard.operator.execute_pending()
        assert [row.status for row in yard.rows()] == ["failed", "applied"]
    assert len(yard.replies()) == 2
    yard.command(pull, "/hostler unblock")
    assert outcome(yard)[0] == "applied"


def test_a_busy_database_leaves_the_command_for_the_next_look(yard, monkeypatch):
    def busy(*_args):
        raise StoreBusy("somebody", 1.0)

    yard.say(yard.operations, "/hostler pause", by=OLGA)
    with monkeypatch.context() as patch:
        patch.setitem(executor.WRITE_COMMANDS, OperatorVerb.PAUSE, busy)
        with pytest.raises(StoreBusy):
            yard.poll()
    assert [row.status for row in yard.rows()] == ["seen"]
    yard.poll()
    assert outcome(yard)[0] == "applied"


def test_the_log_tells_of_every_command(yard):
    lines = StringIO()
    yard.operator = executor.CommandExecutor(
        yard.post, LogDestinations(yard.clock, None, terminal=lines).log
    )
    for who, text in ((OLGA, "pause"), (OLGA, "stop"), (OLGA, "stop now"), (STRANGER, "stop")):
        yard.command(yard.operations, f"/hostler {text}", by=who)
    told = [line.split("operator_command_")[1].split()[0] for line in lines.getvalue().splitlines()]
    assert told == ["seen", "applied", "seen", "failed", "refused", "refused"]


def test_a_command_on_a_line_of_a_pull_request_is_answered_in_its_conversation(yard):
    pull = with_pull(yard)
    yard.tick()
    yard.hub.review_line(pull, "/hostler why", by=OLGA)
    yard.poll()
    assert (outcome(yard)[0], yard.row().thread_number) == ("applied", pull)


@pytest.mark.parametrize("text", ["pause", "status", "unblock"])
def test_two_looks_at_once_carry_out_and_answer_a_command_once(yard, monkeypatch, text):
    """Settings that change are taken up while a look under the old ones is not over."""
    pull = with_pull(yard)
    block(yard, pull)
    yard.say(pull, f"/hostler {text}", by=OLGA)

    def overtaken(word):
        """Between reading the row and acting on it, the other look does all of it."""
        with monkeypatch.context() as patch:
            patch.setattr(executor, "OperatorVerb", OperatorVerb)
            executor.CommandExecutor(yard.post).execute_pending()
        return OperatorVerb(word)

    monkeypatch.setattr(executor, "OperatorVerb", overtaken)
    yard.poll()
    assert outcome(yard)[0] == "applied"
    assert len(yard.replies()) == len(yard.rows()) == 1


def test_an_idle_operator_reads_nothing(yard, monkeypatch):
    yard.operator.execute_pending()
    with monkeypatch.context() as patch:
        patch.setattr(executor, "commands_in", None)
        assert yard.operator.execute_pending() == []
