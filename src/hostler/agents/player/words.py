"""Steps that say something about the work: results of every kind, right and wrong."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hostler.agents.player.stage import CannotPlay, Stage

_HUGE = 1 << 30
_TEXTS = ("summary", "pr_title", "pr_body", "commit_message", "question")


def result(stage: Stage, said: Mapping[str, Any]) -> None:
    """Write result.json; `reply_each` answers every comment of the context."""
    texts = {name: stage.filled(said[name]) for name in _TEXTS if name in said}
    replies = [
        {"comment_id": one["comment_id"], "body": stage.filled(one["body"])}
        for one in said.get("replies", ())
    ]
    if "reply_each" in said:
        replies += [_reply(stage, said["reply_each"], comment) for comment in stage.comments]
    write_json(stage, {"version": 1, "status": said["status"], **texts, "replies": replies})


def ask(stage: Stage, question: str) -> None:
    write_json(stage, {"version": 1, "status": "needs_input", "question": stage.filled(question)})


def block(stage: Stage, why: str) -> None:
    write_json(stage, {"version": 1, "status": "blocked", "question": stage.filled(why)})


def mark_done(stage: Stage, _: bool) -> None:
    if stage.done_file is None:
        raise CannotPlay("HOSTLER_DONE is not set")
    stage.done_file.touch()


def write_json(stage: Stage, value: Mapping[str, Any]) -> None:
    """Whole or not at all, as the contract asks."""
    path = _result_path(stage)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
    temporary.replace(path)


def bad_result(stage: Stage, how: str) -> None:
    """Leave something in the result's place that no reader may trust."""
    path = _result_path(stage)
    if how in _BYTES:
        path.write_bytes(_BYTES[how])
    elif how == "fifo":
        os.mkfifo(path)
    elif how == "directory":
        path.mkdir()
    elif how == "symlink":
        path.symlink_to("/etc/passwd")
    elif how == "huge":
        _make_huge(path)


_BYTES = {
    "deep": b'{"status":' + b"[" * 100_000,
    "empty": b"",
    "half": b'{"version": 1, "status": "done", "summary": "I was about to',
    "nan": b'{"status": "done", "summary": NaN}',
    "no_question": b'{"status": "needs_input"}',
    "not_json": b"I am done!\n",
    "not_utf8": b'{"status": "done", "summary": "\xff\xfe"}',
    "wrong_types": b'{"status": 1, "summary": [], "replies": {"5": "yes"}}',
}


def _make_huge(path: Path) -> None:
    """A gigabyte by its size, almost nothing on the disk."""
    with path.open("wb") as file:
        file.truncate(_HUGE)


def _reply(stage: Stage, text: str, comment: Mapping[str, Any]) -> dict[str, Any]:
    return {"comment_id": comment.get("id"), "body": stage.filled(text, comment=comment)}


def _result_path(stage: Stage) -> Path:
    if stage.result_file is None:
        raise CannotPlay("HOSTLER_RESULT is not set")
    return stage.result_file
