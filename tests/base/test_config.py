from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from file_rights import holds_without_rights
from hostler.config.loader import load_settings, read_settings
from hostler.config.reference import (
    PLAIN_TABLES,
    SETTINGS_TABLES,
    build_json_schema,
    format_toml,
    format_toml_value,
    list_keys,
)
from hostler.config.settings import Settings
from hostler.config.template import (
    InitAnswers,
    InitChoices,
    build_choices,
    parse_github_remote,
    propose_answers,
    render_template,
)
from hostler.errors import ConfigError
from hostler.model import RepoName

REPO = '[repo.hello]\nowner = "octo"\nname = "hello"\n'


@pytest.fixture
def written(tmp_path):
    def write(text: str | bytes) -> Path:
        path = tmp_path / "hostler.toml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def mistakes(path: Path) -> dict[str, str]:
    with pytest.raises(ConfigError) as caught:
        read_settings(path)
    return {problem.key: problem.sentence() for problem in caught.value.problems}


def test_an_empty_file_means_all_defaults(written):
    loaded = read_settings(written(""))
    assert loaded.settings == Settings()
    assert loaded.given == frozenset()


def test_the_defaults_are_the_ones_we_promise():
    settings = Settings()
    runtime, tasks = settings.runtime, settings.tasks
    assert (runtime.worker_count, runtime.poll_interval_seconds, runtime.poll_cadence) == (
        4,
        30,
        "repo",
    )
    assert (tasks.max_concurrent_runs, tasks.max_concurrent_root_tasks) == (0, 0)
    assert (runtime.max_global_agents, runtime.machine_max_agents) == (8, 0)
    assert runtime.memory_floor_mb == 1024
    assert (runtime.demand_ttl_seconds, runtime.rotation_window_seconds) == (600, 60)
    assert runtime.unattached_lease_ttl_seconds == 300
    limits = tasks.design_wall_limit_minutes, tasks.direct_wall_limit_minutes
    assert (*limits, tasks.feedback_wall_limit_minutes) == (60, 90, 30)
    assert tasks.silence_limit_minutes == 15
    assert (runtime.stop_grace_seconds, tasks.exits_without_progress) == (10, 3)
    assert tasks.pr_turns_without_person == 10
    assert runtime.comment_fetch_overlap_seconds == 5
    assert runtime.comment_fetch_late_visibility_seconds == 300
    assert runtime.comment_fetch_safe_backfill_seconds == 86_400
    assert runtime.action_token_unobserved_seconds == 120
    assert runtime.enable_incremental_comment_fetch is True
    assert (tasks.ci_log_tail_lines, runtime.restart_drain_timeout_seconds) == (500, 900)
    assert (settings.budget.per_task_usd, settings.budget.warn_at_percent) == (20, 80)
    assert (tasks.max_restarts, tasks.restart_delay_seconds) == (100, 1)
    assert (tasks.child_wait_timeout_seconds, tasks.child_poll_interval_seconds) == (300, 1)
    assert (tasks.dependency_poll_interval_seconds, tasks.planner_grace_seconds) == (2, 5)
    assert (tasks.bus_lock_timeout_seconds, tasks.bus_max_retries) == (10, 3)
    assert (tasks.bus_retry_backoff_seconds, tasks.rate_limited_requeue_budget) == (0.1, 5)
    assert settings.web.host == "127.0.0.1"


def test_what_the_file_says_is_in_force_and_marked_as_given(written):
    loaded = read_settings(written(REPO + "weight = 2\n[runtime]\nworker_count = 9\n"))
    assert loaded.settings.repo["hello"].weight == 2
    assert loaded.settings.runtime.worker_count == 9
    assert "runtime.worker_count" in loaded.given
    shown = format_toml(loaded.settings, loaded.given)
    assert "worker_count = 9\n" in shown
    assert "poll_interval_seconds = 30                    # default" in shown


def test_every_mistake_is_reported_at_once_with_key_found_allowed_and_hint(written):
    path = written(
        "[runtime]\nworker_cuont = 3\npoll_interval_seconds = 2\npoll_cadence = 'never'\n"
        "[tasks]\nmax_restarts = '3'\n[repo.x]\nowner = '-bad'\nweight = 0\n[nonsense]\na = 1\n"
    )
    found = mistakes(path)
    assert set(found) == {
        "runtime.worker_cuont",
        "runtime.poll_interval_seconds",
        "runtime.poll_cadence",
        "tasks.max_restarts",
        "repo.x.owner",
        "repo.x.name",
        "repo.x.weight",
        "nonsense",
    }
    assert found["runtime.worker_cuont"].startswith("line 2: ")
    assert found["runtime.worker_cuont"].endswith("Did you mean worker_count?")
    assert "expected 5 or more, found 2" in found["runtime.poll_interval_seconds"]
    assert "expected 'repo' or 'turn'" in found["runtime.poll_cadence"]
    assert 'expected a whole number, found "3"' in found["tasks.max_restarts"]
    assert "expected a GitHub login" in found["repo.x.owner"]
    assert "line 7: missing required key repo.x.name." in found["repo.x.name"]


@pytest.mark.parametrize(
    ("text", "key", "words"),
    [
        ("[runtime]\nworker_count = true", "runtime.worker_count", "whole number"),
        ("[runtime]\nworker_count = 4.0", "runtime.worker_count", "whole number"),
        ("[runtime]\notel = 1", "runtime.otel", "true or false"),
        ("runtime = 3", "runtime", "a table"),
        ("[[repo]]\nowner = 'a'", "repo", "a table"),
        ("repo.x = 3", "repo.x", "a table"),
        ("[repo.'a b']\nowner='o'\nname='n'", "repo.a b", "letters"),
        ("[runtime]\nenable_incremental_comment_fetch = 'yes'",
         "runtime.enable_incremental_comment_fetch", "shadow"),
        ("[runtime]\nenable_incremental_comment_fetch = 1",
         "runtime.enable_incremental_comment_fetch", "shadow"),
        ("[github]\napi_url = 'ftp://x'", "github.api_url", "http"),
        ("[agent.a]\nkind = 'command'", "agent.a.command", "program to run"),
        ("[agent.a]\nkind = 'scripted'", "agent.a.script", "script file"),
        ("[agent.a]\nkind = 'claude'\nfallback = 'b'", "agent.a.fallback", "one of a"),
        ("[agent.a]\nkind = 'claude'\nfallback = 'a'", "agent.a.fallback", "lead back"),
        (REPO + "agent = 'zed'", "repo.hello.agent", "an [agent.<name>]"),
        (REPO + "[agent.a]\nkind='claude'\n[agent.b]\nkind='codex'", "repo.hello.agent", "a, b"),
        (REPO + REPO.replace("repo.hello", "repo.again"), "repo.again", "same repository"),
        (REPO + "[repo.hello.labels]\ndesign='x'\nignore='X'", "repo.hello.labels", "different"),
        ("[github]\napp_id = 3", "github.app_private_key_file", "key"),
        ("[github]\nauth = 'app'", "github.app_id", "number"),
        ("[github]\nauth = 'token'\ntoken_env = ''", "github.token_env", "token_file"),
        ("[web]\nhost = '0.0.0.0'", "web.host", "loopback"),
        ("[web]\nhost = 'example.com'", "web.host", "loopback"),
        ("[notify]\nevents = ['party']", "notify.events.0", "blocked"),
    ],
)  # fmt: skip
def test_each_kind_of_mistake_is_named(written, text, key, words):
    found = mistakes(written(text))
    assert key in found
    assert words in found[key]


def test_secrets_in_the_file_are_refused_and_never_shown(written):
    token, password = "ghp_" + "a1" * 18, "correct-horse-battery"
    found = mistakes(
        written(
            f"[github]\ntoken = '{password}'\ntoken_env = '{token}'\n"
            f"[agent.a]\nkind = 'claude'\nextra_args = ['--key', '{token}']\n"
            f"[runtime]\ndatabase_url = 'postgresql://me:{password}@host/db'\n"
        )
    )
    text = "\n".join(found.values())
    assert "Secrets do not belong in this file" in found["github.token"]
    assert "looks like a secret (not shown)" in found["github.token_env"]
    assert "looks like a secret" in found["agent.a.extra_args"]
    assert token not in text and password not in text
    assert "~/.pgpass" in found["runtime.database_url"]


@pytest.mark.parametrize(
    "content", [b"\xff\xfe", b"[runtime", b"a = ", b"a = 1\na = 2", b"\x00", b"x = " + b"[" * 5000]
)
def test_garbage_is_one_clear_mistake(written, content):
    (sentence,) = mistakes(written(content)).values()
    assert "UTF-8" in sentence or "TOML syntax error" in sentence


@given(st.binary(max_size=300))
def test_no_file_content_gets_past_as_anything_but_settings_or_mistakes(content):
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        path = Path(folder) / "hostler.toml"
        path.write_bytes(content)
        try:
            assert isinstance(read_settings(path).settings, Settings)
        except ConfigError as error:
            assert error.problems


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)


@given(st.sampled_from(sorted(list_keys(), key=lambda key: (key.table, key.name))), json_like)
def test_any_value_for_any_key_is_taken_or_named(key, value):
    """Through the parsed form, so that every key meets every type."""
    from hostler.config.loader import _validate
    from hostler.config.validation import check_across_tables

    table = key.table.replace("<id>", "x").replace("<name>", "x").split(".")
    tree: dict[str, object] = {key.name: value}
    for part in reversed(table):
        tree = {part: tree}
    parsed, problems = _validate(tree)
    problems.extend(check_across_tables(parsed))
    assert all(problem.key and problem.sentence() for problem in problems)


def test_a_missing_file_that_was_named_is_an_error_but_no_file_at_all_is_not(tmp_path):
    assert load_settings(tmp_path).path is None
    with pytest.raises(ConfigError, match="mistake"):
        load_settings(tmp_path, tmp_path / "absent.toml")
    with pytest.raises(ConfigError):
        load_settings(tmp_path, tmp_path)


def test_the_nearer_file_wins(tmp_path, monkeypatch):
    home, here = tmp_path / "home", tmp_path / "here"
    for folder, count in ((home, 1), (here, 2), (tmp_path, 3)):
        folder.mkdir(exist_ok=True)
        (folder / "hostler.toml").write_text(f"[runtime]\nworker_count = {count}\n")
    monkeypatch.chdir(here)
    assert load_settings(home).settings.runtime.worker_count == 2
    assert load_settings(home, tmp_path / "hostler.toml").settings.runtime.worker_count == 3
    (here / "hostler.toml").unlink()
    assert load_settings(home).settings.runtime.worker_count == 1


def test_what_show_prints_reads_back_the_same(written):
    path = written(REPO + "allowed_users = ['a', 'b-c']\n[agent.x]\nkind = 'claude'\n")
    first = read_settings(path)
    path.write_text(format_toml(first.settings, first.given))
    assert read_settings(path).settings == first.settings


def test_the_schema_describes_every_key_and_its_restart():
    schema = build_json_schema()
    definitions = schema["$defs"]
    for section in SETTINGS_TABLES.values():
        properties = definitions[section.__name__]["properties"]
        assert set(properties) == set(section.model_fields)
    assert definitions["Runtime"]["properties"]["database_url"]["restart"] is True
    assert definitions["Runtime"]["properties"]["worker_count"]["restart"] is False
    assert definitions["Runtime"]["properties"]["poll_interval_seconds"]["restart"] is False
    assert definitions["Runtime"]["additionalProperties"] is False


def test_every_key_says_what_it_means():
    for key in list_keys():
        assert key.meaning.endswith("."), f"{key.table}.{key.name}"


def test_the_template_is_valid_and_says_every_key(written):
    text = render_template(InitChoices())
    assert read_settings(written(text)).settings == Settings()
    for key in list_keys():
        assert f"# {key.name} = " in text
    assert set(tomllib.loads(text)) == set(PLAIN_TABLES)


def test_the_template_with_every_comment_taken_off_has_only_known_keys(written):
    lines = render_template(InitChoices()).splitlines()
    live = [line.removeprefix("# ") for line in lines if " = " in line or line.startswith("# [")]
    found = mistakes(written("\n".join(live)))
    assert all("unknown key" not in sentence for sentence in found.values())


logins = st.from_regex(r"[A-Za-z0-9](-?[A-Za-z0-9]){0,10}", fullmatch=True)
names = st.from_regex(r"[A-Za-z0-9._-]{1,20}", fullmatch=True).filter(
    lambda n: n not in {".", ".."}
)


@given(logins, names, st.lists(logins, max_size=3), st.sampled_from(["", "claude", "opencode"]))
def test_whatever_is_answered_the_written_file_has_no_mistakes(owner, name, users, agent):
    from tempfile import TemporaryDirectory

    answers = InitAnswers(RepoName(owner, name), tuple(users), agent, "auto")
    with TemporaryDirectory() as folder:
        path = Path(folder) / "hostler.toml"
        path.write_text(render_template(build_choices(answers)))
        (repo,) = read_settings(path).settings.repo.values()
    assert (repo.owner, repo.name, repo.allowed_users) == (owner, name, users)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://github.com/octo/hello.git", "octo/hello"),
        ("git@github.com:octo/hel.lo.git", "octo/hel.lo"),
        ("ssh://git@github.com/octo/hello", "octo/hello"),
        ("https://example.com/octo/hello.git", None),
        ("https://github.com/octo/..", None),
        ("", None),
    ],
)
def test_the_repository_of_a_remote_is_read(url, expected):
    found = parse_github_remote(url)
    assert (str(found) if found else None) == expected


def test_the_proposal_prefers_gh_only_where_no_token_is_set():
    from hostler.config.template import DetectedEnvironment

    both = DetectedEnvironment(("codex",), RepoName("o", "n"), has_token=True, gh_has_token=True)
    assert propose_answers(both).auth == "auto"
    only_gh = DetectedEnvironment((), None, has_token=False, gh_has_token=True)
    assert propose_answers(only_gh) == InitAnswers(None, (), "", "gh")


@given(st.text(max_size=30) | st.integers() | st.booleans() | st.lists(st.text(max_size=5)))
def test_values_written_as_toml_read_back_the_same(value):
    if isinstance(value, int) and abs(value) >= 1 << 63:
        return
    assert tomllib.loads(f"x = {format_toml_value(value)}") == {"x": value}


@pytest.mark.parametrize(
    "text",
    [
        "[runtime]\ndatabase_url = 'postgresql://u@h/db?password=hunter2hunter2'",
        "[runtime]\ndatabase_url = 'postgresql://u@h/db?sslpassword=hunter2hunter2'",
        "[runtime]\ndatabase_url = 'postgresql://[hunter2hunter2'",
        "[github]\ntoken_env = '0123456789abcdef hunter2hunter2'",
        "[github]\nwebhook_secret_env = 'my hunter2hunter2!'",
        "[notify]\nurl_env = 'https://hooks.example/hunter2hunter2'",
        "[repo.ghp_" + "a1" * 18 + "]\nowner = 'hunter2hunter2 x'",
    ],
)
def test_what_may_be_a_secret_is_refused_and_not_repeated(written, text):
    found = mistakes(written(text))
    assert found
    if "repo." not in text:
        assert "hunter2" not in "".join(found.values())


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("[budget]\nper_task_usd = inf", "budget.per_task_usd"),
        ("[budget]\nper_task_usd = nan", "budget.per_task_usd"),
        ("[repo.x]\nowner = 'o'\nname = '..'", "repo.x.name"),
        ("[repo.'a.b']\nowner = 'o'\nname = 'n'", "repo.a.b"),
        ("[runtime]\nworker_count = " + "9" * 5000, "the file"),
    ],
)
def test_values_that_would_do_harm_later_are_refused_now(written, text, key):
    assert key in mistakes(written(text))


def test_a_file_with_a_byte_order_mark_is_read(written):
    assert (
        read_settings(
            written(b"\xef\xbb\xbf[runtime]\nworker_count = 2\n")
        ).settings.runtime.worker_count
        == 2
    )


def test_the_secrets_that_settings_name_are_found_in_the_environment(written):
    from hostler.config.settings import read_named_secrets

    settings = read_settings(
        written("[github]\ntoken_env = 'T'\nwebhook_secret_env = 'W'\n")
    ).settings
    environment = {"T": "one", "W": "two", "PGPASSWORD": "three", "OTHER": "four"}
    assert set(read_named_secrets(settings, environment)) == {"one", "two", "three"}


def test_files_with_secrets_are_known_by_their_keys(written):
    from hostler.config.settings import list_secret_files

    github = "[github]\ntoken_file = '/a/token'\napp_private_key_file = '~/key.pem'\n"
    settings = read_settings(written(f"{github}[web]\ntoken_file = '/a/token'\n")).settings
    assert list_secret_files(settings) == (Path("/a/token"), Path("~/key.pem").expanduser())
    assert list_secret_files(Settings()) == ()


def test_what_cannot_be_looked_at_counts_as_present(tmp_path):
    from hostler.config.loader import path_exists

    closed = tmp_path / "closed"
    closed.mkdir()
    closed.chmod(0)
    assert holds_without_rights(lambda: path_exists(closed / "hostler.toml"))
    closed.chmod(0o700)
    assert not path_exists(closed / "hostler.toml")


def test_an_operations_issue_that_nobody_may_command_on_is_a_mistake(written):
    path = written(REPO + "operations_issue_number = 3\n")
    with pytest.raises(ConfigError) as raised:
        read_settings(path)
    assert [problem.key for problem in raised.value.problems] == ["repo.hello.operator_logins"]
    path.write_text(path.read_text() + "operator_logins = ['ann']\n")
    assert read_settings(path).settings.repo["hello"].operations_issue_number == 3
