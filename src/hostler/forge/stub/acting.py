"""Deeds on a repository in memory: doing them, and looking for them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from hostler.errors import Invalid
from hostler.forge import payloads
from hostler.forge.deeds import (
    CloseIssue,
    Comment,
    CreateLabel,
    Deed,
    EditComment,
    Label,
    OpenIssue,
    OpenPull,
    Reply,
    RerunFailedJobs,
    Unlabel,
    UpdatePull,
)
from hostler.forge.finding import is_ours
from hostler.forge.markers import marked, titled, tokens_in
from hostler.forge.port import ItemKind, Made
from hostler.forge.stub.world import Payload, World


def act(world: World, me: str, deed: Deed, key: str) -> Made:
    """Do it."""
    match deed:
        case Comment():
            made = world.say(deed.number, marked(deed.body, key), by=me)
            return payloads.made(world.comments[made])
        case Reply():
            text = marked(deed.body, key)
            made = world.review_line(deed.number, text, by=me, reply_to=deed.to_comment)
            return payloads.made(world.review_comments[made])
        case EditComment():
            text = marked(deed.body, key)
            return payloads.made(world.edit(ItemKind.ISSUE_COMMENT, deed.comment_id, text))
        case OpenIssue():
            text, title = marked(deed.body, key), titled(deed.title)
            number = world.file_issue(title, by=me, body=text, labels=deed.labels)
            return payloads.made(world.issues[number])
        case OpenPull():
            return _open_pull(world, me, deed, key)
        case CreateLabel():
            world.known_labels.setdefault(deed.name, {"name": deed.name})
            return Made()
        case RerunFailedJobs():
            return _rerun(world, deed)
        case UpdatePull() | CloseIssue() | Label() | Unlabel():
            return _set(world, me, deed, key)
        case _:
            assert_never(deed)


def look(world: World, me: str, deed: Deed, key: str, since: str) -> Made | None:
    """What an earlier act has made."""
    match deed:
        case Comment() | EditComment():
            return _marked(world.comments.values(), me, key, since)
        case Reply():
            return _marked(world.review_comments.values(), me, key, since)
        case OpenIssue():
            return _marked(world.issues.values(), me, key, since)
        case OpenPull():
            return _pull(world, me, deed, key)
        case CreateLabel():
            return Made() if deed.name in world.known_labels else None
        case RerunFailedJobs():
            again = world.one(world.runs, deed.run_id)["run_attempt"] > deed.attempt
            return Made(id=deed.run_id) if again else None
        case UpdatePull() | CloseIssue() | Label() | Unlabel():
            return Made(number=deed.number) if _is_so(world, deed, key) else None
        case _:
            assert_never(deed)


def _marked(rows: Iterable[Payload], me: str, key: str, since: str) -> Made | None:
    for row in rows:
        same = is_ours(payloads.author(row), payloads.text(row, "body"), me, key)
        if same and row["updated_at"] >= since:
            return payloads.made(row)
    return None


def _open_pull(world: World, me: str, deed: OpenPull, key: str) -> Made:
    found = _pull(world, me, deed, key)
    if found is not None:
        return found
    if deed.head not in world.branches:
        raise Invalid("POST pulls", 422, "Validation Failed", (("head", "invalid", ""),))
    number = world.open_pull(
        deed.head, deed.base, titled(deed.title), by=me, body=marked(deed.body, key)
    )
    world.pulls[number]["draft"] = deed.draft
    return payloads.made(world.pulls[number])


def _pull(world: World, me: str, deed: OpenPull, key: str) -> Made | None:
    pulls = [pull for pull in world.pulls.values() if pull["head"]["ref"] == deed.head]
    for pull in pulls:
        if is_ours(payloads.author(pull), payloads.text(pull, "body"), me, key):
            return payloads.made(pull)
    for pull in pulls:
        if pull["state"] == "open" and pull["base"]["ref"] == deed.base:
            return payloads.made(pull)
    return None


def _rerun(world: World, deed: RerunFailedJobs) -> Made:
    if world.one(world.runs, deed.run_id)["run_attempt"] <= deed.attempt:
        world.rerun(deed.run_id)
    return Made(id=deed.run_id)


def _set(world: World, me: str, deed: UpdatePull | CloseIssue | Label | Unlabel, key: str) -> Made:
    match deed:
        case UpdatePull():
            world.one(world.pulls, deed.number)
            given = {
                "title": None if deed.title is None else titled(deed.title),
                "body": None if deed.body is None else marked(deed.body, key),
                "state": deed.state,
            }
            world.change(deed.number, **{k: v for k, v in given.items() if v is not None})
        case CloseIssue():
            world.change(deed.number, state="closed", state_reason=deed.reason)
        case Label():
            world.put_labels(deed.number, deed.labels, by=me)
        case Unlabel():
            labels = world.one(world.issues, deed.number)["labels"]
            kept = [label for label in labels if label["name"] != deed.label]
            world.change(deed.number, labels=kept)
    return payloads.made(world.issues[deed.number])


def _is_so(world: World, deed: UpdatePull | CloseIssue | Label | Unlabel, key: str) -> bool:
    if deed.number not in world.issues:
        return False
    issue = world.issues[deed.number]
    there = {payloads.label_name(label) for label in issue["labels"]}
    match deed:
        case CloseIssue():
            return bool(issue["state"] == "closed")
        case Label():
            return set(deed.labels) <= there
        case Unlabel():
            return deed.label not in there
        case UpdatePull():
            return (
                deed.title in (None, issue["title"])
                and (deed.body is None or key in tokens_in(issue["body"]))
                and deed.state in (None, issue["state"])
            )
