"""Live streams with many clients, clients that never read, and no clients."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Collection
from contextlib import asynccontextmanager

import pytest
from web_fixture import BEARER, open_web_fixture, temporary_home

from hostler.bus.bus import open_task_bus
from hostler.bus.message import MessageSender, MessageType
from hostler.store.tasks import TaskState
from hostler.web.errors import TooManyClients
from hostler.web.live.hub import LiveHub
from hostler.web.live.streams import HEARTBEAT, EventStream, stream_task_events
from hostler.web.middleware import SESSION_COOKIE

TIMEOUT_SECONDS = 30.0


class StreamClient:
    """A client in this process; a `stuck` one takes the headers and then no data."""

    def __init__(
        self,
        app,
        path: str,
        last: str = "",
        *,
        stuck: bool = False,
        cookie: str = "",
        bearer: bool = False,
    ) -> None:
        known = {"Cookie": f"{SESSION_COOKIE}={cookie}"} if cookie else BEARER
        known = known | (BEARER if bearer else {})
        headers = {**known, "Host": "localhost"} | ({"Last-Event-ID": last} if last else {})
        self.scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [(k.lower().encode(), v.encode()) for k, v in headers.items()],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 1),
        }
        self.status = 0
        self.stuck = stuck
        self.over = asyncio.Event()
        self._app = app
        self._gone = asyncio.Event()
        self._asked = False
        self._told: asyncio.Queue[bytes] = asyncio.Queue()
        self._left = b""

    async def run(self) -> None:
        try:
            await self._app(self.scope, self._receive, self._send)
        finally:
            self.over.set()

    async def next(self, *names: str) -> tuple[str, str, dict]:
        """Return the id, name and data of the next event with one of these names."""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while True:
                while b"\n\n" not in self._left:
                    self._left += await self._told.get()
                block, _, self._left = self._left.partition(b"\n\n")
                fields = dict(
                    line.split(": ", 1) for line in block.decode().split("\n") if line[:1] != ":"
                )
                if fields.get("event") in names:
                    return fields.get("id", ""), fields["event"], json.loads(fields["data"])

    def got_nothing_more(self) -> bool:
        """Return True if no more data came."""
        rest = self._left
        while not self._told.empty():
            rest += self._told.get_nowait()
        return rest == b""

    def leave(self) -> None:
        self._gone.set()

    async def _receive(self):
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        elif self.stuck:
            await asyncio.Event().wait()
        else:
            self._told.put_nowait(message["body"])


@asynccontextmanager
async def open_stream(app, path, last="", **more):
    client = StreamClient(app, path, last, **more)
    task = asyncio.create_task(client.run())
    try:
        yield client
    finally:
        client.leave()
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await task


@pytest.fixture
def live_fixture():
    """A home with a real clock, whose watchers stop at once without clients."""
    with temporary_home() as home, open_web_fixture(home, linger_seconds=0.0) as found:
        yield found


def in_thread(act, *given):
    return asyncio.to_thread(act, *given)


def ended(name: str, earlier: Collection[threading.Thread]) -> None:
    """Wait until threads of this name have ended; those of other tests' servers do not count."""
    for thread in [one for one in threading.enumerate() if one.name == name]:
        if thread not in earlier:
            thread.join(TIMEOUT_SECONDS)
            assert not thread.is_alive()


def test_task_changes_are_streamed_and_resumed(live_fixture):
    async def scenario():
        async with open_stream(live_fixture.app, "/api/v1/live/tasks") as client:
            start, _, _ = await client.next("ready")
            task = await in_thread(live_fixture.put)
            first, _, told = await client.next("task")
            assert (told["id"], told["state"]) == (task.id, "queued")
            await client.next("changed")
            async with open_stream(live_fixture.app, "/api/v1/live/tasks", start) as other:
                assert (await other.next("task", "reset"))[0] == first
            await in_thread(lambda: live_fixture.change(task, state=TaskState.DONE))
            second, _, told = await client.next("task")
            assert told["state"] == "done"
            async with open_stream(live_fixture.app, "/api/v1/live/tasks", first) as other:
                assert (await other.next("task", "reset"))[0] == second
            async with open_stream(live_fixture.app, "/api/v1/live/tasks", "other-5") as other:
                assert (await other.next("task", "reset"))[1] == "reset"

    asyncio.run(scenario())


def test_run_output_is_streamed_until_the_run_ends(live_fixture):
    run = live_fixture.start(live_fixture.put())
    folder = live_fixture.home / run.folder
    folder.mkdir(parents=True)
    out = (folder / "stdout").open("wb", buffering=0)

    def over():
        with live_fixture.store.write("tasks") as tx:
            tx.constant("UPDATE runs SET state = 'exited'")

    async def scenario():
        out.write("one é\n".encode())
        path = f"/api/v1/live/runs/{run.run}"
        async with open_stream(live_fixture.app, path) as client:
            at, _, told = await client.next("output")
            assert (at, told["text"]) == ("7", "one é\n")
            out.write(b"two\n")
            assert (await client.next("output"))[2]["text"] == "two\n"
            async with open_stream(live_fixture.app, path, "7") as other:
                assert (await other.next("output"))[2] == {"offset": 7, "end": 11, "text": "two\n"}
            await in_thread(over)
            assert (await client.next("end"))[0] == "11"
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await client.over.wait()

    with out:
        asyncio.run(scenario())


def test_messages_are_streamed_as_they_are_posted(live_fixture):
    task = live_fixture.put()
    bus = open_task_bus(live_fixture.home, task.project, task.id).create()

    def post(text):
        return bus.post(MessageType.USER, text, MessageSender.person("ann"))

    async def scenario():
        first = await in_thread(post, "one")
        path = f"/api/v1/live/tasks/{task.id}/bus"
        async with open_stream(live_fixture.app, path) as client:
            assert (await client.next("message"))[2]["body"] == "one"
            second = await in_thread(post, "two")
            assert (await client.next("message"))[0] == second.id
            async with open_stream(live_fixture.app, path, first.id) as other:
                assert (await other.next("message"))[2]["body"] == "two"

    asyncio.run(scenario())


def test_file_changes_do_not_notify_task_listeners(live_fixture, tmp_path):
    async def scenario():
        live = LiveHub(live_fixture.store, live_fixture.clock, linger_seconds=0.0)
        try:
            async with live.listen() as rows, live.listen(tmp_path) as files:
                files.clear()
                (tmp_path / "stdout").write_text("one\n")
                assert await files.wait(TIMEOUT_SECONDS)
                assert not await rows.wait(0)
        finally:
            await in_thread(live.close)

    asyncio.run(scenario())


def test_twenty_clients_get_everything_while_one_never_reads(live_fixture, monkeypatch):
    slow = EventStream.__init__
    monkeypatch.setattr(
        EventStream, "__init__", lambda self, source, **more: slow(self, source, 0.2, **more)
    )

    async def scenario():
        clients = [StreamClient(live_fixture.app, "/api/v1/live/tasks") for _ in range(19)]
        stuck = StreamClient(live_fixture.app, "/api/v1/live/tasks", stuck=True)
        tasks = [asyncio.create_task(one.run()) for one in (*clients, stuck)]
        for one in clients:
            await one.next("ready")
        made = [(await in_thread(live_fixture.put)).id for _ in range(5)]
        for one in clients:
            assert [(await one.next("task"))[2]["id"] for _ in made] == made
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await stuck.over.wait()
        assert live_fixture.context.live.clients == 19
        for one in clients:
            one.leave()
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await asyncio.gather(*tasks)

    asyncio.run(scenario())
    assert live_fixture.context.live.clients == 0


def test_closing_a_session_ends_only_its_streams(live_fixture):
    async def scenario():
        mine, other = live_fixture.sessions.open(), live_fixture.sessions.open()
        path = "/api/v1/live/tasks"
        async with (
            open_stream(live_fixture.app, path, cookie=mine) as closed,
            open_stream(live_fixture.app, path, cookie=other) as open_still,
            open_stream(live_fixture.app, path) as program,
            # Authenticated by its token, so the session does not matter.
            open_stream(live_fixture.app, path, cookie=mine, bearer=True) as both,
        ):
            for one in (closed, open_still, program, both):
                await one.next("ready")
            live_fixture.sessions.close(mine)
            await in_thread(live_fixture.put)
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await closed.over.wait()
            assert closed.got_nothing_more()
            for one in (open_still, program, both):
                await one.next("task")

    asyncio.run(scenario())


def test_an_expired_session_ends_a_quiet_stream_at_its_heartbeat(live_fixture):
    name = live_fixture.sessions.open()

    async def scenario():
        source = stream_task_events(live_fixture.context.live, "", heartbeat=0.01)
        stream, sent = (
            EventStream(source, has_access=lambda: live_fixture.sessions.is_open(name)),
            [],
        )

        async def send(message):
            sent.append(message)
            live_fixture.sessions.close(name)

        async def never():
            await asyncio.Event().wait()

        async with asyncio.timeout(TIMEOUT_SECONDS):
            await stream({"type": "http"}, never, send)
        assert [one.get("body") for one in sent] == [None, b""]

    asyncio.run(scenario())


def test_without_clients_no_thread_watches(live_fixture):
    assert not live_fixture.context.live.watching
    run, earlier = live_fixture.start(live_fixture.put()), threading.enumerate()

    async def scenario():
        async with open_stream(live_fixture.app, f"/api/v1/live/runs/{run.run}") as client:
            (live_fixture.home / run.folder).mkdir(parents=True)
            (live_fixture.home / run.folder / "stdout").write_text("x\n")
            await client.next("output")
            assert live_fixture.context.live.watching and live_fixture.context.live.clients == 1

    asyncio.run(scenario())
    ended("live-files", earlier)
    ended("live-commits", earlier)
    assert not live_fixture.context.live.watching and live_fixture.context.live.clients == 0


def test_the_epoch_is_kept_while_the_watcher_lingers():
    with (
        temporary_home() as home,
        open_web_fixture(home, linger_seconds=TIMEOUT_SECONDS) as live_fixture,
    ):

        async def scenario():
            async with open_stream(live_fixture.app, "/api/v1/live/tasks") as client:
                start, _, _ = await client.next("ready")
            task = await in_thread(live_fixture.put)
            async with open_stream(live_fixture.app, "/api/v1/live/tasks", start) as client:
                assert (await client.next("task", "reset"))[2]["id"] == task.id

        asyncio.run(scenario())


def test_quiet_streams_have_a_heartbeat(live_fixture):
    async def scenario():
        source = stream_task_events(live_fixture.context.live, "", heartbeat=0.01)
        async for part in source:
            if part == HEARTBEAT:
                break
        await source.aclose()

    asyncio.run(scenario())


def test_clients_above_the_limit_are_refused(live_fixture):
    live = LiveHub(live_fixture.store, live_fixture.clock, max_clients=1, linger_seconds=0.0)

    async def scenario():
        async with live.listen():
            assert live.is_full
            with pytest.raises(TooManyClients):
                async with live.listen():
                    pass
        assert not live.is_full

    asyncio.run(scenario())
    live.close()
