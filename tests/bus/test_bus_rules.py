"""Rules: ids, names, who may say what, who speaks, which bus is meant."""

from __future__ import annotations

import os
import pwd
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.bus.bus import current_sender, project_bus_path, resolve_location, task_bus_path
from hostler.bus.errors import InvalidBusRequest, InvalidMessage
from hostler.bus.message import (
    BEGINNING,
    MessageSender,
    MessageType,
    SenderKind,
    allowed_types,
    id_and_timestamp,
    id_from_time,
    is_id,
    is_valid_name,
    may_post,
    next_id,
    previous_id,
    time_from_id,
)
from hostler.bus.writer import BusOptions
from hostler.config.settings import Settings
from hostler.model import format_timestamp

moments = st.datetimes(min_value=datetime(1, 1, 2), timezones=st.just(UTC))


@given(moments)
def test_an_id_is_a_moment(moment):
    assert time_from_id(id_from_time(moment)) == moment
    assert is_id(id_from_time(moment))


@given(moments)
def test_the_stamp_beside_an_id_is_the_one_of_everywhere(moment):
    assert id_and_timestamp(moment) == (id_from_time(moment), format_timestamp(moment))


@given(moments, moments)
def test_ids_sort_as_their_moments_do(one, other):
    assert (id_from_time(one) < id_from_time(other)) == (one < other)


@given(st.lists(moments.filter(lambda moment: moment.year < 9999), min_size=1))
def test_ids_never_go_back_whatever_the_clock_does(clock_says):
    last, made = BEGINNING, []
    for now in clock_says:
        last = next_id(last, now)
        made.append(last)
    assert all(before < after for before, after in pairwise(made))
    assert made[0] == id_from_time(clock_says[0])


@given(moments, moments)
def test_an_id_is_the_clocks_time_unless_that_would_go_back(last, now):
    if now > last:
        assert next_id(id_from_time(last), now) == id_from_time(now)
    elif last < datetime.max.replace(tzinfo=UTC):
        assert time_from_id(next_id(id_from_time(last), now)) == last + timedelta(microseconds=1)


@given(moments)
def test_nothing_stands_between_an_id_and_the_one_before(moment):
    assert previous_id(id_from_time(moment)) < id_from_time(moment)
    assert next_id(
        previous_id(id_from_time(moment)), datetime.min.replace(tzinfo=UTC)
    ) == id_from_time(moment)


def test_before_the_first_id_is_the_beginning():
    assert previous_id(id_from_time(datetime.min.replace(tzinfo=UTC))) == BEGINNING


def test_after_the_last_id_there_is_none():
    with pytest.raises(OverflowError):
        next_id("99991231-235959-999999", datetime(2026, 1, 1, tzinfo=UTC))


NO_IDS = [
    "20260230-120000-000000",
    "20260301-240000-000000",
    "20260301-120000-12345",
    "00000101-000000-000000",
    "20260301_120000_123456",
    "٢٠260301-120000-123456",
    "~",
]


@pytest.mark.parametrize(
    "text", [*NO_IDS, "", "20260301-120000-123456\n", " 20260301-120000-123456"]
)
def test_what_is_no_moment_is_no_id(text):
    assert not is_id(text)


ONLY_ONE = {
    "USER": SenderKind.PERSON,
    "RUN_START": SenderKind.SERVICE,
    "RUN_STOP": SenderKind.SERVICE,
    "RUN_CRASH": SenderKind.SERVICE,
}


@pytest.mark.parametrize("kind", SenderKind)
@pytest.mark.parametrize("type_", MessageType)
def test_agents_do_not_speak_as_people_and_only_the_service_tells_of_runs(kind, type_):
    assert may_post(kind, type_) == (ONLY_ONE.get(type_, kind) == kind)
    assert (type_ in allowed_types(kind)) == may_post(kind, type_)


def test_the_types_are_the_promised_ones():
    promised = "FACT PROGRESS DECISION QUESTION ERROR WARNING INFO USER REVIEW"
    assert list(MessageType) == [*promised.split(), "RUN_START", "RUN_STOP", "RUN_CRASH"]


@given(st.text(max_size=12) | st.sampled_from(["..", ".", "a/b", "a..b", "a.lock", "a\n", "-a"]))
def test_a_name_never_leaves_its_folder(name):
    if is_valid_name(name):
        path = os.path.normpath(f"/home/projects/{name}/bus.jsonl")
        assert path == f"/home/projects/{name}/bus.jsonl"
        assert name.isascii() and "/" not in name and "\n" not in name


@given(st.text(max_size=12))
def test_senders_are_named_plainly_or_refused(name):
    for make in (MessageSender.person, MessageSender.agent):
        try:
            found = make(name)
        except ValueError:
            continue
        assert str(found).isprintable()
        assert MessageSender.of(found.stored()) == found


def test_in_a_run_its_agent_speaks():
    variables = {"HOSTLER_RUN": "r7", "HOSTLER_TASK": "t7", "HOSTLER_PROJECT": "stable"}
    assert current_sender(variables) == MessageSender.agent("r7", "t7", "stable")
    assert current_sender({**variables, "USER": "root"}).kind is SenderKind.AGENT


def test_outside_of_a_run_it_is_the_user_by_the_system_and_not_by_a_variable():
    name = pwd.getpwuid(os.getuid()).pw_name
    assert current_sender({"USER": "somebody", "LOGNAME": "else"}) == MessageSender.person(name)
    assert current_sender({"HOSTLER_RUN": ""}) == MessageSender.person(name)


def test_a_user_without_a_name_is_a_number(monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000_123)
    assert current_sender({}) == MessageSender.person("uid 4000000123")


@pytest.mark.parametrize("name", ["a/b", "x" * 200, "r\n1", "../r", "\x1b[2J"])
@pytest.mark.parametrize("variable", ["HOSTLER_RUN", "HOSTLER_TASK", "HOSTLER_PROJECT"])
def test_an_environment_that_names_no_run_is_refused(variable, name):
    variables = {"HOSTLER_RUN": "r", "HOSTLER_TASK": "t", "HOSTLER_PROJECT": "p", variable: name}
    with pytest.raises(InvalidMessage):
        current_sender(variables)


IN_A_RUN = {"HOSTLER_PROJECT": "stable", "HOSTLER_TASK": "t1"}


@pytest.fixture
def home(tmp_path):
    for project, task in (("stable", "t1"), ("barn", "t2"), ("stable", "both"), ("barn", "both")):
        (tmp_path / "projects" / project / "tasks" / task).mkdir(parents=True)
    return tmp_path


@pytest.mark.parametrize(
    ("variables", "project", "task", "expected"),
    [
        (IN_A_RUN, "", "", ("stable", "t1")),
        ({"HOSTLER_PROJECT": "stable"}, "", "", ("stable", "")),
        (IN_A_RUN, "stable", "", ("stable", "")),
        (IN_A_RUN, "barn", "", ("barn", "")),
        (IN_A_RUN, "", "both", ("stable", "both")),
        (IN_A_RUN, "", "t2", ("barn", "t2")),
        (IN_A_RUN, "", "new", ("stable", "new")),
        ({}, "", "t2", ("barn", "t2")),
        ({}, "barn", "both", ("barn", "both")),
        ({}, "other", "", ("other", "")),
    ],
)
def test_the_bus_that_is_meant(home, variables, project, task, expected):
    place = resolve_location(home, variables, project, task)
    assert (place.project, place.task) == expected


@pytest.mark.parametrize(
    ("project", "task", "word"),
    [("", "", "Which"), ("", "both", "barn, stable"), ("", "absent", "No project")],
)
def test_a_bus_that_is_not_clear_is_asked_for(home, project, task, word):
    with pytest.raises(InvalidBusRequest, match=word):
        resolve_location(home, {}, project, task)


def test_buses_are_where_the_design_says(tmp_path):
    assert project_bus_path(tmp_path, "p") == tmp_path / "projects/p/bus.jsonl"
    assert task_bus_path(tmp_path, "p", "t") == tmp_path / "projects/p/tasks/t/bus.jsonl"
    for bad in ("..", "a/b", ""):
        with pytest.raises(InvalidBusRequest):
            project_bus_path(tmp_path, bad)
        with pytest.raises(InvalidBusRequest):
            task_bus_path(tmp_path, "p", bad)


def test_the_terms_are_those_of_the_settings():
    assert BusOptions.of(Settings().tasks) == BusOptions()
    assert (BusOptions().lock_timeout_seconds, BusOptions().max_retries, BusOptions().sync) == (
        10,
        3,
        False,
    )


def test_pauses_double():
    assert [BusOptions().pause_after(attempt) for attempt in (1, 2, 3)] == [0.1, 0.2, 0.4]
