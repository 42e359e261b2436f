from __future__ import annotations

import io
import json
import multiprocessing
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hostler.clock import FakeClock
from hostler.telemetry.logs import DailyLogFile, LogCaps, LogDestinations, format_terminal_line
from hostler.telemetry.metrics import metrics
from hostler.telemetry.names import (
    COMMAND_FAILED,
    LOG_LINES,
    LOG_LINES_LOST,
    STORE_UPGRADED,
    LogLevel,
)

START = datetime(2026, 3, 1, 23, 59, 58, tzinfo=UTC)


def read(folder: Path) -> dict[str, list[dict[str, object]]]:
    return {
        path.name: [json.loads(line) for line in path.read_text().splitlines()]
        for path in sorted(folder.iterdir())
    }


def test_each_utc_day_has_a_file_of_its_own(tmp_path):
    clock = FakeClock(START)
    logs = LogDestinations(clock, tmp_path)
    logs.log.bind(task=7).event(COMMAND_FAILED, command="a")
    clock.advance(3)
    logs.log.event(COMMAND_FAILED, command="b")
    logs.close()
    files = read(tmp_path)
    assert list(files) == ["2026-03-01.jsonl", "2026-03-02.jsonl"]
    assert files["2026-03-01.jsonl"] == [
        {
            "at": "2026-03-01T23:59:58.000Z",
            "level": "error",
            "event": "command_failed",
            "task": 7,
            "command": "a",
        }
    ]
    assert files["2026-03-02.jsonl"][0]["command"] == "b"


def test_old_days_are_removed_and_nothing_else(tmp_path):
    kept = {"2026-02-26.jsonl", "2026-02-27.jsonl", "notes.txt", "2020-01-01.jsonl.gz"}
    for name in (*kept, "2026-02-25.jsonl", "2026-02-01.jsonl"):
        (tmp_path / name).write_text("{}\n")
    logs = LogDestinations(FakeClock(START), tmp_path, retention_days=3)
    logs.log.event(COMMAND_FAILED)
    logs.close()
    assert {path.name for path in tmp_path.iterdir()} == {*kept, "2026-03-01.jsonl"}


def test_a_clock_that_jumps_back_and_forth_loses_no_line(tmp_path):
    clock = FakeClock(START)
    logs = LogDestinations(clock, tmp_path)
    for jump in (86_400, -2 * 86_400, 86_400):
        logs.log.event(COMMAND_FAILED)
        clock.jump(jump)
    logs.log.event(COMMAND_FAILED)
    logs.close()
    assert sum(len(lines) for lines in read(tmp_path).values()) == 4


def test_levels_below_the_chosen_one_are_left_out(tmp_path):
    logs = LogDestinations(FakeClock(START), tmp_path, least=LogLevel.WARNING)
    logs.log.event(STORE_UPGRADED)
    logs.log.event(COMMAND_FAILED)
    logs.close()
    assert [line["event"] for line in read(tmp_path)["2026-03-01.jsonl"]] == ["command_failed"]


def write_many(folder: str, name: str) -> None:
    file = DailyLogFile(Path(folder), FakeClock(START), 14)
    for number in range(200):
        file.write(json.dumps({"writer": name, "number": number, "padding": "x" * 3000}))


def test_lines_of_many_processes_never_mix(tmp_path):
    context = multiprocessing.get_context("spawn")
    writers = [
        context.Process(target=write_many, args=(str(tmp_path), str(number))) for number in range(4)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    lines = read(tmp_path)["2026-03-01.jsonl"]
    assert len({(line["writer"], line["number"]) for line in lines}) == len(lines) == 800


class FullDisk(DailyLogFile):
    """A file whose disk is full while `full` says so: some of the line is written, then nothing."""

    full = False

    def _append(self, data: bytes) -> None:
        if self.full:
            os.write(self._descriptor, b"")
            raise OSError(28, "No space left on device")
        super()._append(data)


def test_a_full_disk_stops_nothing_and_is_told_once_there_is_room(tmp_path, monkeypatch):
    monkeypatch.setattr("hostler.telemetry.logs.DailyLogFile", FullDisk)
    lost = metrics.value(LOG_LINES_LOST)
    logs = LogDestinations(FakeClock(START), tmp_path)
    logs.log.event(COMMAND_FAILED, command="before")
    monkeypatch.setattr(FullDisk, "full", True)
    for _ in range(3):
        logs.log.event(COMMAND_FAILED, command="lost")
    monkeypatch.setattr(FullDisk, "full", False)
    logs.log.event(COMMAND_FAILED, command="after")
    logs.close()
    lines = read(tmp_path)["2026-03-01.jsonl"]
    assert [line.get("command", line.get("count")) for line in lines] == ["before", 3, "after"]
    assert metrics.value(LOG_LINES_LOST) > lost


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_real_write_error_is_counted_and_not_raised(tmp_path):
    (tmp_path / "2026-03-01.jsonl").symlink_to("/dev/full")
    file = DailyLogFile(tmp_path, FakeClock(START), 14)
    file.write("{}")
    assert file.dropped == 1


def test_a_folder_that_cannot_be_made_stops_nothing(tmp_path):
    (tmp_path / "logs").write_text("in the way")
    logs = LogDestinations(FakeClock(START), tmp_path / "logs")
    logs.log.event(COMMAND_FAILED)
    logs.close()
    assert (tmp_path / "logs").read_text() == "in the way"


def test_values_that_json_cannot_hold_are_logged_all_the_same(tmp_path):
    logs = LogDestinations(FakeClock(START), tmp_path)
    circle: list[object] = []
    circle.append(circle)
    logs.log.event(COMMAND_FAILED, circle=circle, key={(1, 2): 3}, odd="\ud800", text="a\nb\x00")
    logs.close()
    (line,) = read(tmp_path)["2026-03-01.jsonl"]
    assert line["event"] == "command_failed"


def test_people_see_one_plain_line_and_no_control_characters():
    fields = {"at": "2026-03-01T23:59:58.000Z", "level": "error", "event": "command_failed"}
    line = format_terminal_line(
        {**fields, "name": "\x1b[2Jevil", "words": "two words"}, colours=False
    )
    assert line == '23:59:58 error    command_failed  name=\\x1b[2Jevil words="two words"\n'
    coloured = format_terminal_line(fields, colours=True)
    assert coloured.startswith("\x1b[31m") and coloured.rstrip().endswith("\x1b[0m")


def test_a_stream_that_is_no_terminal_gets_no_colours(tmp_path):
    terminal = io.StringIO()
    logs = LogDestinations(FakeClock(START), None, terminal=terminal)
    logs.log.event(COMMAND_FAILED, error=ValueError("no"))
    assert "\x1b" not in terminal.getvalue()
    assert "    ValueError: no" in terminal.getvalue()


def test_lines_are_counted_by_level(tmp_path):
    before = metrics.value(LOG_LINES, level="error")
    LogDestinations(FakeClock(START), None).log.event(COMMAND_FAILED)
    assert metrics.value(LOG_LINES, level="error") == before + 1
    assert "log_lines_total" in metrics.text()


def test_a_line_that_was_cut_short_by_a_full_disk_is_taken_back(tmp_path, monkeypatch):
    file = DailyLogFile(tmp_path, FakeClock(START), 14)
    file.write("whole")
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:3]))
    file.write("torn")
    monkeypatch.undo()
    file.write("whole again")
    assert (tmp_path / "2026-03-01.jsonl").read_text() == "whole\nwhole again\n"
    assert file.dropped == 1


def test_a_librarys_level_is_kept_and_decides(tmp_path):
    import logging

    logs = LogDestinations(FakeClock(START), tmp_path, least=LogLevel.ERROR)
    logs.capture_foreign()
    for level in (logging.WARNING, logging.ERROR, logging.CRITICAL):
        logging.getLogger("library").log(level, "at %d", level)
    logs.close()
    lines = read(tmp_path)["2026-03-01.jsonl"]
    assert [(line["level"], line["message"]) for line in lines] == [
        ("error", "at 40"),
        ("error", "at 50"),
    ]


class Unspeakable:
    def __str__(self) -> str:
        raise RuntimeError("no words")


def test_nothing_that_is_logged_can_raise(tmp_path, monkeypatch):
    import logging

    monkeypatch.setattr(logging, "raiseExceptions", False)
    logs = LogDestinations(FakeClock(START), tmp_path)
    logs.capture_foreign()
    logs.log.event(COMMAND_FAILED, thing=Unspeakable(), number=10**5000, odd=float("nan"))
    logging.getLogger("library").warning("%d", "not a number")
    logs.close()
    (line,) = read(tmp_path)["2026-03-01.jsonl"]
    assert line["thing"] == "<Unspeakable that cannot be shown>"


def test_a_forked_child_is_not_held_up_by_its_parents_locks(tmp_path):
    """Another thread holds every lock of ours at the moment of the fork."""
    import threading

    from hostler.telemetry import redaction

    logs = LogDestinations(FakeClock(START), tmp_path)
    locks = [logs._file._lock, redaction._redactor._lock, metrics._made["log_lines_total"]._lock]
    held, done = threading.Event(), threading.Event()

    def hold():
        for lock in locks:
            lock.acquire()
        held.set()
        done.wait(60)
        for lock in locks:
            lock.release()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(60)
    child = os.fork()
    if child == 0:
        redaction.register_secret("a secret of the child")
        logs.log.event(COMMAND_FAILED, command="child")
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    done.set()
    thread.join()
    assert [line["command"] for line in read(tmp_path)["2026-03-01.jsonl"]] == ["child"]


def test_the_file_of_a_day_ends_at_its_cap_and_the_next_day_tells_of_the_rest(tmp_path):
    clock = FakeClock(START)
    logs = LogDestinations(clock, tmp_path, caps=LogCaps(day=1000))
    for number in range(50):
        logs.log.event(COMMAND_FAILED, command=str(number))
    first = tmp_path / "2026-03-01.jsonl"
    assert first.stat().st_size <= 1000 and not logs.complete
    clock.advance(86_400)
    logs.log.event(COMMAND_FAILED, command="next")
    logs.close()
    days = read(tmp_path)
    told = sum(line.get("count", 0) for lines in days.values() for line in lines)
    kept = [line for lines in days.values() for line in lines if "command" in line]
    assert len(kept) - 1 + told == 50 and days["2026-03-02.jsonl"][-1]["command"] == "next"


def test_all_files_together_stay_below_their_cap(tmp_path):
    for day in ("2026-02-26", "2026-02-27", "2026-02-28"):
        (tmp_path / f"{day}.jsonl").write_text("x" * 400)
    (tmp_path / "notes.txt").write_text("x" * 4000)
    file = DailyLogFile(tmp_path, FakeClock(START), 14, LogCaps(total=900))
    file.write("{}")
    file.close()
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"2026-02-27.jsonl", "2026-02-28.jsonl", "2026-03-01.jsonl", "notes.txt"}
    assert LogCaps.of_mb(0, 0) == LogCaps() and LogCaps.of_mb(1, 2) == LogCaps(1 << 20, 2 << 20)
