"""Live clients: many at once, some that never read, and nobody at work for nobody."""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import asynccontextmanager

import pytest
from web_house import BEARER, memory_home, web_house

from hostler.bus.bus import open_task_bus
from hostler.bus.message import MessageSender, MessageType
from hostler.store.tasks import TaskState
from hostler.web.errors import TooMany
from hostler.web.live.hub import LiveHub
from hostler.web.live.streams import HEARTBEAT, EventStream, stream_task_events
from hostler.web.middleware import SESSION_COOKIE

PATIENCE = 30.0


class Listening:
    """A client in this process; one that is `stuck` takes the first bytes and then none."""

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
        """The next event of these names: its id, name and data."""
        async with asyncio.timeout(PATIENCE):
            while True:
                while b"\n\n" not in self._left:
                    self._left += await self._told.get()
                block, _, self._left = self._left.partition(b"\n\n")
                fields = dict(
                    line.split(": ", 1) for line in block.decode().split("\n") if line[:1] != ":"
                )
                if fields.get("event") in names:
                    return fields.get("id", ""), fields["event"], json.loads(fields["data"])

    def told_nothing_more(self) -> bool:
        """Whether nothing came but the end."""
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
async def listening(app, path, last="", **more):
    client = Listening(app, path, last, **more)
    task = asyncio.create_task(client.run())
    try:
        yield client
    finally:
        client.leave()
        async with asyncio.timeout(PATIENCE):
            await task


@pytest.fixture
def lively():
    """A home whose clock runs, and where nobody lingers."""
    with memory_home() as home, web_house(home, linger=0.0) as found:
        yield found


def in_thread(act, *given):
    return asyncio.to_thread(act, *given)


def ended(name: str) -> None:
    for thread in [one for one in threading.enumerate() if one.name == name]:
        thread.join(PATIENCE)
        assert not thread.is_alive()


def test_tasks_are_told_as_they_change_and_coming_back_goes_on(lively):
    async def scene():
        async with listening(lively.app, "/api/v1/live/tasks") as client:
            start, _, _ = await client.next("ready")
            task = await in_thread(lively.put)
            first, _, told = await client.next("task")
            assert (told["id"], told["state"]) == (task.id, "queued")
            await client.next("changed")
            async with listening(lively.app, "/api/v1/live/tasks", start) as other:
                assert (await other.next("task", "reset"))[0] == first
            await in_thread(lambda: lively.change(task, state=TaskState.DONE))
            second, _, told = await client.next("task")
            assert told["state"] == "done"
            async with listening(lively.app, "/api/v1/live/tasks", first) as other:
                assert (await other.next("task", "reset"))[0] == second
            async with listening(lively.app, "/api/v1/live/tasks", "other-5") as other:
                assert (await other.next("task", "reset"))[1] == "reset"

    asyncio.run(scene())


def test_what_a_run_prints_is_told_until_it_is_over(lively):
    run = lively.start(lively.put())
    folder = lively.home / run.folder
    folder.mkdir(parents=True)
    out = (folder / "stdout").open("wb", buffering=0)

    def over():
        with lively.store.write("tasks") as tx:
            tx.constant("UPDATE runs SET state = 'exited'")

    async def scene():
        out.write("one é\n".encode())
        path = f"/api/v1/live/runs/{run.run}"
        async with listening(lively.app, path) as client:
            at, _, told = await client.next("output")
            assert (at, told["text"]) == ("7", "one é\n")
            out.write(b"two\n")
            assert (await client.next("output"))[2]["text"] == "two\n"
            async with listening(lively.app, path, "7") as other:
                assert (await other.next("output"))[2] == {"offset": 7, "end": 11, "text": "two\n"}
            await in_thread(over)
            assert (await client.next("end"))[0] == "11"
            async with asyncio.timeout(PATIENCE):
                await client.over.wait()

    with out:
        asyncio.run(scene())


def test_messages_are_told_as_they_are_posted(lively):
    task = lively.put()
    bus = open_task_bus(lively.home, task.project, task.id).create()

    def post(text):
        return bus.post(MessageType.USER, text, MessageSender.person("ann"))

    async def scene():
        first = await in_thread(post, "one")
        path = f"/api/v1/live/tasks/{task.id}/bus"
        async with listening(lively.app, path) as client:
            assert (await client.next("message"))[2]["body"] == "one"
            second = await in_thread(post, "two")
            assert (await client.next("message"))[0] == second.id
            async with listening(lively.app, path, first.id) as other:
                assert (await other.next("message"))[2]["body"] == "two"

    asyncio.run(scene())


def test_a_file_that_changes_is_no_news_for_those_who_follow_tasks(lively, tmp_path):
    async def scene():
        live = LiveHub(lively.store, lively.clock, linger=0.0)
        try:
            async with live.listening() as rows, live.listening(tmp_path) as files:
                files.hush()
                (tmp_path / "stdout").write_text("one\n")
                assert await files.heard(PATIENCE)
                assert not await rows.heard(0)
        finally:
            await in_thread(live.close)

    asyncio.run(scene())


def test_twenty_clients_hear_everything_while_one_never_reads(lively, monkeypatch):
    slow = EventStream.__init__
    monkeypatch.setattr(
        EventStream, "__init__", lambda self, source, **more: slow(self, source, 0.2, **more)
    )

    async def scene():
        clients = [Listening(lively.app, "/api/v1/live/tasks") for _ in range(19)]
        stuck = Listening(lively.app, "/api/v1/live/tasks", stuck=True)
        tasks = [asyncio.create_task(one.run()) for one in (*clients, stuck)]
        for one in clients:
            await one.next("ready")
        made = [(await in_thread(lively.put)).id for _ in range(5)]
        for one in clients:
            assert [(await one.next("task"))[2]["id"] for _ in made] == made
        async with asyncio.timeout(PATIENCE):
            await stuck.over.wait()
        assert lively.context.live.clients == 19
        for one in clients:
            one.leave()
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*tasks)

    asyncio.run(scene())
    assert lively.context.live.clients == 0


def test_a_session_that_is_closed_ends_its_streams_and_no_others(lively):
    async def scene():
        mine, other = lively.sessions.open(), lively.sessions.open()
        path = "/api/v1/live/tasks"
        async with (
            listening(lively.app, path, cookie=mine) as closed,
            listening(lively.app, path, cookie=other) as open_still,
            listening(lively.app, path) as program,
            # It came in by its token, whatever session it names besides.
            listening(lively.app, path, cookie=mine, bearer=True) as both,
        ):
            for one in (closed, open_still, program, both):
                await one.next("ready")
            lively.sessions.close(mine)
            await in_thread(lively.put)
            async with asyncio.timeout(PATIENCE):
                await closed.over.wait()
            assert closed.told_nothing_more()
            for one in (open_still, program, both):
                await one.next("task")

    asyncio.run(scene())


def test_a_quiet_stream_of_a_session_that_is_over_ends_with_its_heartbeat(lively):
    name = lively.sessions.open()

    async def scene():
        source = stream_task_events(lively.context.live, "", heartbeat=0.01)
        stream, sent = EventStream(source, lasts=lambda: lively.sessions.lasts(name)), []

        async def send(message):
            sent.append(message)
            lively.sessions.close(name)

        async def never():
            await asyncio.Event().wait()

        async with asyncio.timeout(PATIENCE):
            await stream({"type": "http"}, never, send)
        assert [one.get("body") for one in sent] == [None, b""]

    asyncio.run(scene())


def test_without_clients_nobody_watches(lively):
    assert not lively.context.live.watching
    run = lively.start(lively.put())

    async def scene():
        async with listening(lively.app, f"/api/v1/live/runs/{run.run}") as client:
            (lively.home / run.folder).mkdir(parents=True)
            (lively.home / run.folder / "stdout").write_text("x\n")
            await client.next("output")
            assert lively.context.live.watching and lively.context.live.clients == 1

    asyncio.run(scene())
    ended("live-files")
    ended("live-commits")
    assert not lively.context.live.watching and lively.context.live.clients == 0


def test_who_lingers_keeps_the_epoch():
    with memory_home() as home, web_house(home, linger=PATIENCE) as lively:

        async def scene():
            async with listening(lively.app, "/api/v1/live/tasks") as client:
                start, _, _ = await client.next("ready")
            task = await in_thread(lively.put)
            async with listening(lively.app, "/api/v1/live/tasks", start) as client:
                assert (await client.next("task", "reset"))[2]["id"] == task.id

        asyncio.run(scene())


def test_quiet_streams_have_a_heartbeat(lively):
    async def scene():
        source = stream_task_events(lively.context.live, "", heartbeat=0.01)
        async for part in source:
            if part == HEARTBEAT:
                break
        await source.aclose()

    asyncio.run(scene())


def test_beyond_so_many_nobody_may_listen(lively):
    live = LiveHub(lively.store, lively.clock, most=1, linger=0.0)

    async def scene():
        async with live.listening():
            assert live.full
            with pytest.raises(TooMany):
                async with live.listening():
                    pass
        assert not live.full

    asyncio.run(scene())
    live.close()
