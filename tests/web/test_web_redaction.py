"""No route or stream sends a known secret, wherever it is cut."""

from __future__ import annotations

import asyncio
import json
import tempfile
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from hostler.agents.agent_files import OutputStream
from hostler.bus.bus import open_task_bus
from hostler.bus.message import MessageSender, MessageType
from hostler.store.tasks import TaskState
from hostler.telemetry.redaction import (
    REDACTED,
    encode_forms,
    mask_bytes,
    register_secret,
    registered_forms,
    unregister_secret,
)
from hostler.web.live.streams import (
    HEARTBEAT,
    stream_bus_messages,
    stream_readable_output,
    stream_run_output,
    stream_task_events,
)
from hostler.web.redaction import RedactedJSONResponse, dump_redacted, redact_value
from hostler.web.run_output import ByteRange, read_masked

SECRET = 'aa"b-pass\\word-of-é-house'
PLAIN = SECRET.encode()


@contextmanager
def known(*secrets: str):
    for one in secrets:
        register_secret(one)
    try:
        yield
    finally:
        for one in secrets:
            unregister_secret(one)


def parts(path: Path, cuts: list[int], size: int, *, complete: bool) -> bytes:
    """Read a file in parts, each from the end of the previous one."""
    told, at = b"", 0
    for end in (*sorted(cuts), size):
        if end > at:
            told += read_masked(path, ByteRange(at, end), complete=complete)
            at = len(told)
    return told


PIECES = st.lists(st.sampled_from([PLAIN, PLAIN[:9], b"aa", b"x\n", b"\n"]), max_size=8)


@given(PIECES, st.lists(st.integers(0, 200), max_size=6))
def test_ranges_of_an_output_join_to_the_masked_whole(pieces, cuts):
    data = b"".join(pieces)
    with known(SECRET), tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "stdout"
        path.write_bytes(data)
        whole = mask_bytes(data, encode_forms(registered_forms()))
        assert PLAIN not in whole
        assert parts(path, [min(one, len(data)) for one in cuts], len(data), complete=True) == whole


@given(PIECES, st.lists(st.integers(0, 200), max_size=6))
def test_growing_output_never_shows_the_start_of_a_secret(pieces, cuts):
    data = b"".join(pieces)
    with known(SECRET), tempfile.TemporaryDirectory() as folder:
        path, told = Path(folder) / "stdout", b""
        whole = mask_bytes(data, encode_forms(registered_forms()))
        for size in sorted(cuts):
            path.write_bytes(data[:size])
            told += read_masked(path, ByteRange(len(told), len(told) + 999), complete=False)
            assert whole.startswith(told)
        path.write_bytes(data)
        told += read_masked(path, ByteRange(len(told), len(told) + 999), complete=True)
        assert told == whole


def words(value) -> str:
    """Return all texts of a response, decoded."""
    return json.dumps(value, ensure_ascii=False) + str(value)


def test_no_route_returns_a_secret(api_home, client):
    task = api_home.put(
        title=f"use {SECRET}", question=f"is it {SECRET}?", state=TaskState.NEEDS_INPUT
    )
    other = api_home.put(title=f"use {SECRET}")
    run = api_home.start(other)
    folder = api_home.home / run.folder
    folder.mkdir(parents=True)
    (folder / "stdout").write_bytes(b"it is " + PLAIN + b" ok\n")
    bus = open_task_bus(api_home.home, task.project, task.id).create()
    bus.post(MessageType.INFO, f"the word is {SECRET}", MessageSender.person("ann"))
    paths = ["status", "tasks", "blocked", "config", f"tasks/{task.id}", f"tasks/{other.id}/why"]
    paths += [f"tasks/{task.id}/bus", f"runs/{run.run}", "tasks/nobody"]
    with known(SECRET):
        for path in paths:
            answer = client.get(f"/api/v1/{path}")
            assert SECRET not in words(answer.json()), path
        titles = [one["title"] for one in client.get("/api/v1/tasks").json()["tasks"]]
        assert titles == [f"use {REDACTED}"] * 2
        refused = client.post("/api/v1/tasks", json={"prompt": "x", "cwd": f"/{SECRET}"})
        assert refused.status_code == 422 and SECRET not in words(refused.json())
        for asked in ({}, {"Range": "bytes=8-"}, {"Range": "bytes=0-12"}):
            shown = client.get(f"/api/v1/runs/{run.run}/output", headers=asked).content
            assert b"pass" not in shown and len(shown) in (36, 28, 13)
    assert client.get(f"/api/v1/tasks/{task.id}").json()["title"] == f"use {SECRET}"


def test_no_stream_sends_a_secret(api_home):
    task = api_home.put(title=f"use {SECRET}")
    run = replace(api_home.start(task), agent_kind="scripted")
    folder = api_home.home / run.folder
    folder.mkdir(parents=True)
    connection = json.dumps({"type": "text", "text": f"it is {SECRET}", "delta": False})
    (folder / "stdout").write_text(connection + "\n")
    bus = open_task_bus(api_home.home, task.project, task.id).create()
    bus.post(MessageType.INFO, f"the word is {SECRET}", MessageSender.person("ann"))
    live = api_home.context.live

    async def first(source, name) -> dict:
        async for part in source:
            if f"event: {name}\n".encode() in part:
                await source.aclose()
                return json.loads(part.split(b"data: ")[1])
        raise AssertionError("it has ended")

    async def tasks() -> dict:
        source = stream_task_events(live, "")
        assert b"event: ready" in await anext(source)
        await asyncio.to_thread(api_home.put, title=f"and {SECRET}")
        return await first(source, "task")

    async def scenario() -> list[dict]:
        return [
            await first(
                stream_run_output(live, api_home.store, api_home.home, run, OutputStream.STDOUT, 0),
                "output",
            ),
            await first(
                stream_readable_output(live, api_home.store, api_home.home, run, 0), "output"
            ),
            await first(stream_bus_messages(live, bus.path, ""), "message"),
            await tasks(),
        ]

    with known(SECRET):
        for told in asyncio.run(scenario()):
            assert "pass" not in words(told), told
            assert REDACTED in words(told) or "****" in words(told)


def test_a_key_printed_line_by_line_is_redacted_from_readable_output(api_home):
    run = replace(api_home.start(api_home.put()), agent_kind="scripted")
    folder = api_home.home / run.folder
    folder.mkdir(parents=True)
    lines = ["it prints\n", "-----BEGIN PRIVATE KEY-----\n", "MIIBVgIB\n", "ADANBgkq\n"]
    lines += ["-----END PRIVATE KEY-----\n", "and goes on\n"]

    async def scenario() -> str:
        told, source = (
            "",
            stream_readable_output(
                api_home.context.live, api_home.store, api_home.home, run, 0, 0.01
            ),
        )
        with (folder / "stdout").open("w", buffering=1) as file:
            for connection in lines:
                file.write(connection)
                # Its text comes before the next heartbeat.
                while (part := await anext(source)) != HEARTBEAT:
                    told += json.loads(part.split(b"data: ")[1])["text"]
        await source.aclose()
        return told

    told = asyncio.run(scenario())
    assert "it prints" in told and "and goes on" in told
    assert "MIIB" not in told and "ADAN" not in told


def test_a_key_at_the_start_of_a_line_is_redacted_in_responses_and_events():
    text = "below\nsk-" + "a1" * 15
    assert "a1a1" not in dump_redacted({"text": text})
    assert b"a1a1" not in RedactedJSONResponse({"text": text}).body


def test_redaction_keeps_json_valid():
    """A secret's pattern across two texts redacts nothing and keeps the JSON valid."""
    told = {"a": "-----BEGIN RSA PRIVATE KEY-----", "b": ["http://x", {"c:d": "y@z"}], "n": 7}
    told["e"] = "-----END RSA PRIVATE KEY-----"
    assert (
        json.loads(RedactedJSONResponse(told).body) == told
        and json.loads(dump_redacted(told)) == told
    )
    with known(SECRET):
        assert redact_value({SECRET: (SECRET, 1, None)}) == {REDACTED: [REDACTED, 1, None]}
