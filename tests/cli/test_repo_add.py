"""`hostler repo add` on a GitHub of our own: every label once, whatever happens in between."""

from __future__ import annotations

import json
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import count

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from next_revision import know_next_revision
from repo_add_child import MOMENTS, add_until
from repo_program import AGENT, Program, table

from hostler.cli.commands.repo_add import RepoAddOptions
from hostler.cli.commands.repo_add import build_table as new_table
from hostler.clock import SystemClock
from hostler.config.loader import read_settings
from hostler.config.settings import GitHub
from hostler.errors import HostlerError
from hostler.forge.github.hub import open_github
from hostler.forge.outbox.sender import OutboxSender
from hostler.model import RepoName
from hostler.sandbox.auth import token_for
from hostler.sandbox.server import running
from hostler.service.context import open_or_create_store
from hostler.store import Patience
from hostler.store.admin.migrate import upgrade
from hostler.store.engine.backend import find_place
from hostler.store.engine.locks import home_lock
from loaded_children import CONTEXT

NAMES = ["agent:bugfix", "agent:design", "agent:ignore", "agent:small-job"]
NO_LIMITS = dict.fromkeys(
    ("primary_limit", "points_per_minute", "creations_per_minute", "creations_per_hour"), 0
)
_numbers = count(1)


@pytest.fixture(scope="module")
def sandbox():
    seed = {"users": [{"login": login} for login in ("alice", "bot", "carol")]}
    with running(seed, **NO_LIMITS) as made:
        yield made


class Place:
    """A repository of alice's to which the bot may push, and a home that may watch it."""

    def __init__(self, sandbox, home) -> None:
        self.sandbox = sandbox
        self.home = home
        self.id = f"barn{next(_numbers)}"
        self.name = f"alice/{self.id}"
        self.file = home / "hostler.toml"
        self.text = f'# mine\n[github]\napi_url = "{sandbox.url}"\n\n{AGENT}'
        access = {"bot": "write", "carol": "read"}
        sandbox.seed({"repos": [{"name": self.name, "collaborators": access}]})
        sandbox.app.pipeline.faults.remove()
        sandbox.app.pipeline.ledger.clear()
        home.mkdir()
        self.file.write_text(self.text)

    def fault(self, kind, **values) -> None:
        self.sandbox.app.pipeline.faults.add({"kind": kind, **values})

    def make(self, *names) -> None:
        with self.sandbox.client("alice") as alice:
            for name in names:
                done = alice.post(f"/repos/{self.name}/labels", json={"name": name})
                assert done.is_success

    def labels(self) -> list[str]:
        with self.sandbox.client("alice") as alice:
            found = alice.get(f"/repos/{self.name}/labels?per_page=100").json()
        return sorted(label["name"] for label in found)

    def writes(self) -> int:
        found = self.sandbox.app.pipeline.ledger.answer({"method": "POST", "limit": "1000"})
        return sum(row["login"] == "bot" for row in found["entries"])

    def untouched(self) -> bool:
        return self.file.read_text() == self.text and not (self.home / "hostler.db").exists()


@pytest.fixture
def place(sandbox, home):
    return Place(sandbox, home)


@pytest.fixture
def environment(environment):
    return {**environment, "GITHUB_TOKEN": token_for("bot")}


@pytest.fixture
def repo(tmp_path, environment, monkeypatch, capsys):
    return Program(tmp_path, environment, monkeypatch, capsys)


def facts(done):
    assert done.code == 0, done.err
    return json.loads(done.out)


def test_the_real_program_adds_a_repository_once(hostler_process, place):
    done = hostler_process("repo", "add", place.name)
    assert done.code == 0, done.err
    assert place.labels() == NAMES
    assert place.file.read_text() == place.text + (
        f'\n[repo.{place.id}]\nowner = "alice"\nname = "{place.id}"\n'
        'allowed_users = ["bot"]\noperator_logins = ["bot"]\n'
    )
    assert f"Added {place.name} as [repo.{place.id}]" in done.out
    assert "Only issues and comments of bot (the token's account)" in done.out
    assert "hostler service --dry-run" in done.out and "agent:design: created" in done.err
    written, writes = place.file.read_text(), place.writes()
    again = hostler_process("repo", "add", place.name.upper(), "--json")
    labels = facts(again)["labels"]
    assert (facts(again)["added"], sorted(labels["present"]), labels["made"]) == (False, NAMES, [])
    assert (place.file.read_text(), place.writes(), place.labels()) == (written, writes, NAMES)


def test_only_missing_labels_are_made_and_others_left_as_they_are(repo, place):
    place.make("Agent:Design", "agent:ignore", "agent:small-job", "bug")
    done = facts(repo("add", place.name, "--json"))
    assert done["labels"]["made"] == ["agent:bugfix"] and place.writes() == 1
    assert place.labels() == sorted(["Agent:Design", *NAMES[:1], *NAMES[2:], "bug"])


def test_labels_of_the_operators_own(repo, place):
    own = '[repo.x.labels]\nbugfix = "fix"\ndesign = "think"\nsmall_job = "do"\nignore = "no"\n'
    place.make("fix", "think", "do")
    place.file.write_text(place.text + table("x", place.name) + own)
    assert facts(repo("add", place.name, "--json"))["labels"]["made"] == ["no"]
    assert place.labels() == ["do", "fix", "no", "think"]


def test_an_answer_lost_after_the_write_makes_no_second_label(repo, place):
    place.make(*NAMES[1:])
    place.fault("fail_after", status=502, method="POST", route="*/labels")
    done = facts(repo("add", place.name, "--json"))
    assert done["labels"]["made"] == NAMES[:1]
    assert (place.labels(), place.writes()) == (NAMES, 1)


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_at_any_moment_and_run_again(repo, place, environment, tmp_path, moment):
    # Between two labels the command pauses: one is enough, but for the end of the first.
    place.make(*NAMES[2 if moment == "stored" else 1 :])
    child = CONTEXT.Process(target=add_until, args=(moment, place.name, tmp_path, environment))
    child.start()
    child.join(60)
    assert child.exitcode == -signal.SIGKILL
    done = facts(repo("add", place.name, "--json"))
    assert done["labels"]["queued"] == [] and place.labels() == NAMES
    assert list(read_settings(place.file).settings.repo) == [place.id]
    assert place.file.read_text().startswith(place.text)


def test_a_service_that_holds_the_home_makes_them(hostler, place, monkeypatch):
    place.make(*NAMES[2:])
    clock, ended, sent = SystemClock(), threading.Event(), []
    monkeypatch.setenv("GITHUB_TOKEN", token_for("bot"))
    with (
        closing(open_or_create_store(place.home, None, clock)) as store,
        closing(open_github(GitHub(api_url=place.sandbox.url))) as hub,
        home_lock(place.home, clock),
        ThreadPoolExecutor(1) as pool,
    ):
        sender = OutboxSender(
            store, hub.repo, clock, settled=lambda tx, row: sent.append(row.token)
        )

        def serve():
            while not ended.is_set():
                mark = store.change_mark()
                sender.send_due()
                store.wait_for_change(mark, 1.0)

        serving = pool.submit(serve)
        try:
            done = hostler("repo", "add", place.name)
        finally:
            ended.set()
        serving.result()
    assert done.code == 0, done.err
    assert "to create them" in done.err
    assert len(sent) == 2 and place.labels() == NAMES


def test_a_label_that_github_never_takes_is_told_and_the_table_stays(repo, place):
    place.make(*NAMES[1:])
    place.fault("status", status=410, method="POST", route="*/labels", count=None)
    done = repo("add", place.name, "--json")
    assert done.code == 1
    assert list(json.loads(done.out)["labels"]["failed"]) == NAMES[:1]
    assert "agent:bugfix" in done.err and "run the command again" in done.err
    assert list(read_settings(place.file).settings.repo) == [place.id]
    place.sandbox.app.pipeline.faults.remove()
    assert facts(repo("add", place.name, "--json"))["labels"]["made"] == NAMES[:1]


def test_a_dry_run_changes_nothing(repo, place):
    done = repo("add", place.name, "--dry-run", "--allow", "ann")
    assert done.code == 0, done.err
    assert f"[repo.{place.id}]" in done.out and "Would create labels" in done.out
    assert 'allowed_users = ["ann"]' in done.out and "Nothing was changed." in done.out
    shown = facts(repo("add", place.name, "--dry-run", "--json"))
    assert (shown["dry_run"], sorted(shown["labels"]["missing"])) == (True, NAMES)
    assert place.untouched() and place.writes() == 0


def test_everything_that_was_said_is_in_the_table(repo, place):
    place.file.write_text(place.text + '[agent.codex]\nkind = "codex"\n')
    options = ["--id", "mine", "--base-branch", "release/1.x", "--agent", "codex", "--no-labels"]
    done = facts(repo("add", place.name, *options, "--allow", "ann", "--allow", "bob", "--json"))
    found = read_settings(place.file).settings.repo["mine"]
    assert (found.base_branch, found.agent) == ("release/1.x", "codex")
    assert (found.allowed_users, found.operator_logins) == (["ann", "bob"], ["ann"])
    assert done["added"] and place.labels() == []
    again = facts(repo("add", place.name, *options, "--allow", "Bob", "--allow", "ann", "--json"))
    assert again["added"] is False


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--id", "other"], "values of: id"),
        (["--base-branch", "dev"], "values of: base_branch"),
        (["--allow", "eve"], "values of: allowed_users"),
        (["--agent", "hal"], "no agent 'hal'"),
    ],
)
def test_adding_again_never_changes_the_table(repo, place, options, words):
    place.text += table("here", place.name, 'allowed_users = ["ann"]')
    place.file.write_text(place.text)
    done = repo("add", place.name, *options)
    assert done.code == 1 and words in done.err
    assert place.untouched()


def test_two_repositories_do_not_share_an_id(repo, place):
    place.text += table(place.id, "octo/elsewhere")
    place.file.write_text(place.text)
    done = repo("add", place.name, "--id", place.id)
    assert done.code == 1 and "octo/elsewhere" in done.err and place.untouched()
    assert facts(repo("add", place.name, "--no-labels", "--json"))["id"] == f"alice-{place.id}"


def test_a_renamed_repository_is_added_under_its_present_name(repo, place):
    with place.sandbox.client("alice") as alice:
        new = f"{place.id}-new"
        assert alice.patch(f"/repos/{place.name}", json={"name": new}).is_success
    done = facts(repo("add", place.name, "--no-labels", "--json"))
    assert (done["repository"], done["id"]) == (f"alice/{new}", new)
    assert facts(repo("add", place.name, "--no-labels", "--json"))["added"] is False
    old = place.text + table("old", place.name)
    place.file.write_text(old)
    said = repo("add", place.name, "--no-labels")
    assert f"GitHub renamed it to alice/{new}" in said.out and place.file.read_text() == old


REFUSED = [
    ("nobody/nothing", {}, "does not exist on GitHub, or bot may not see it"),
    ("", {"GITHUB_TOKEN": token_for("carol")}, "carol may not push"),
    ("", {"GITHUB_TOKEN": "ghp_" + "wrong" * 8}, "rejected the token"),
    ("", {"GITHUB_TOKEN": "", "PATH": ""}, "`gh` could not be run"),
]


@pytest.mark.parametrize(("name", "env", "words"), REFUSED, ids=lambda part: str(part)[:12])
def test_each_refusal_of_github_is_one_clear_message(repo, place, name, env, words):
    done = repo("add", name or place.name, env=env)
    assert done.code == 1
    assert words in done.err and "Nothing was changed." in done.err
    assert done.err.count("error:") == 1 and "ghp_" not in done.err
    assert place.untouched() and place.writes() == 0


def test_a_github_that_is_not_there_changes_nothing(repo, place):
    place.text = f'[github]\napi_url = "http://127.0.0.1:1"\n{AGENT}'
    place.file.write_text(place.text)
    done = repo("add", place.name)
    assert done.code == 1 and "could not be reached" in done.err
    assert "Nothing was changed." in done.err and place.untouched()


def test_without_a_settings_file_it_says_how_to_write_one(repo, place):
    place.file.unlink()
    done = repo("add", place.name)
    assert done.code == 1 and "hostler init" in done.err
    assert not place.file.exists()


def test_settings_with_mistakes_are_refused_whole(repo, place):
    place.text += "nonsense = 1\n"
    place.file.write_text(place.text)
    done = repo("add", place.name)
    assert done.code == 2 and "agent.claude.nonsense" in done.err and place.untouched()


def test_several_agents_and_none_named(repo, place):
    place.text += '[agent.codex]\nkind = "codex"\n'
    place.file.write_text(place.text)
    done = repo("add", place.name)
    assert done.code == 1 and "claude, codex" in done.err and place.untouched()


def test_without_any_agent_it_is_added_and_the_agent_is_missed(repo, place):
    place.file.write_text(f'[github]\napi_url = "{place.sandbox.url}"\n')
    done = repo("add", place.name, "--no-labels")
    assert done.code == 0 and "Still missing: an agent" in done.out


@pytest.mark.parametrize(
    "argv",
    [
        ["nonsense"],
        ["a/b/c"],
        ["/"],
        [""],
        ["octo/.."],
        ["-x/y"],
        ["octo/x", "--id", "a.b"],
        ["octo/x", "--id", "x\n"],
        ["octo/x", "--id", "é"],
        ["octo/x", "--allow", "@ann"],
        ["octo/x", "--allow", ""],
        ["octo/x", "--allow", "ann,bob"],
        ["octo/x", "--base-branch", "a..b"],
        ["octo/x", "--base-branch", 'a"\n[repo.y]'],
        ["octo/x", "--agent", "hal"],
    ],
    ids=repr,
)
def test_garbage_is_one_clear_error_and_changes_nothing(repo, place, argv):
    done = repo("add", *(argv if not argv[0].startswith("-") else ["--", *argv]))
    assert done.code == 1
    assert done.err.startswith("error: ") and "Traceback" not in done.err
    assert place.untouched()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20))
def test_any_text_as_a_name_is_refused_in_words(repo, place, text):
    try:
        RepoName.parse(text.strip())
    except ValueError:
        done = repo("add", "--", text)
        assert done.code == 1 and done.err.startswith("error: ")
        assert place.untouched()
    else:
        assume(False)


def test_a_database_of_another_schema_is_told_before_anything_is_changed(repo, place, monkeypatch):
    upgrade(
        place.home,
        find_place(place.home, None),
        clock=SystemClock(),
        patience=Patience(),
        progress=lambda done, total: None,
    )
    know_next_revision(monkeypatch)
    done = repo("add", place.name)
    assert done.code == 1 and "hostler db upgrade" in done.err
    assert place.file.read_text() == place.text and place.writes() == 0


def test_a_linked_file_is_followed_and_its_mode_kept(repo, place, tmp_path):
    real = tmp_path / "dotfiles.toml"
    place.file.rename(real)
    real.chmod(0o640)
    place.file.symlink_to(real)
    assert facts(repo("add", place.name, "--no-labels", "--json"))["added"]
    assert place.file.is_symlink() and real.stat().st_mode & 0o777 == 0o640
    assert list(read_settings(real).settings.repo) == [place.id]


def test_the_file_in_force_is_the_one_that_changes(hostler, place, tmp_path):
    here = tmp_path / "cwd" / "hostler.toml"
    here.write_text(place.text)
    assert facts(hostler("repo", "add", place.name, "--no-labels", "--json"))["settings"] == str(
        here
    )
    assert place.file.read_text() == place.text and place.id in read_settings(here).settings.repo


def test_several_at_once_are_all_added(hostler_process, place):
    names = [place.name]
    for _ in range(2):
        name = f"alice/barn{next(_numbers)}"
        place.sandbox.seed({"repos": [{"name": name, "collaborators": {"bot": "write"}}]})
        names.append(name)
    with ThreadPoolExecutor(len(names)) as pool:
        done = list(
            pool.map(lambda name: hostler_process("repo", "add", name, "--no-labels"), names)
        )
    assert [one.code for one in done] == [0] * len(names), [one.err for one in done]
    found = read_settings(place.file).settings.repo.values()
    assert sorted(f"{one.owner}/{one.name}" for one in found) == sorted(names)


def test_an_app_has_no_person_to_allow():
    name = RepoName("octo", "stable")
    with pytest.raises(HostlerError, match="the App"):
        new_table(name, "hostler[bot]", RepoAddOptions(name))
    allowed = new_table(name, "hostler[bot]", RepoAddOptions(name, allow=("ann",)))
    assert allowed["allowed_users"] == ["ann"]
