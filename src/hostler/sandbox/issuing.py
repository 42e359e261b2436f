"""What can happen to an issue, with its events and webhooks. Pull requests use it too."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from hostler.sandbox.call import Call
from hostler.sandbox.entities import Issue, Label, PullMark, User
from hostler.sandbox.errors import invalid
from hostler.sandbox.fields import Fields

REASONS = ("completed", "not_planned", "reopened", "duplicate")
COLOR = "ededed"


@dataclass(frozen=True)
class Change:
    """The fields that a request wants changed; None leaves a field as it is."""

    title: str | None = None
    body: str | None = None
    clear_body: bool = False
    state: str | None = None
    reason: str | None = None
    labels: list[str] | None = None
    assignees: list[str] | None = None

    @classmethod
    def read(cls, fields: Fields, only: tuple[str, ...] = ()) -> Change:
        """The change that a JSON body asks for."""
        if only:
            return cls(labels=label_names(fields), assignees=fields.texts("assignees"))
        return cls(
            title=fields.text("title", required="title" in fields, limit=256),
            body=fields.body(),
            clear_body="body" in fields and fields.values["body"] is None,
            state=fields.choice("state", ("open", "closed")),
            reason=fields.choice("state_reason", REASONS),
            labels=label_names(fields),
            assignees=fields.texts("assignees"),
        )


def label_names(fields: Fields) -> list[str] | None:
    """The names in `labels`, each given as text or as an object with a name."""
    values = fields.values.get("labels")
    if isinstance(values, list):
        named = [item.get("name") if isinstance(item, dict) else item for item in values]
        return Fields(fields.resource, {"labels": named}).texts("labels")
    return fields.texts("labels")


def open_issue(call: Call, title: str, body: str | None, pull: PullMark | None = None) -> Issue:
    """Put a new issue (or the issue side of a pull request) into the world."""
    world, now = call.world, call.world.now()
    return world.put(
        Issue(
            id=world.new_id("issue"),
            repo_id=call.repo.id,
            number=world.next_number(call.repo),
            title=title,
            body=body,
            user=call.actor,
            created_at=now,
            updated_at=now,
            association=call.association(),
            pull=pull,
            app_id=call.viewer.app_id,
        )
    )


def change_issue(call: Call, issue: Issue, change: Change) -> Issue:
    """Apply a change, with one event and one webhook per thing that really changed."""
    before = issue
    issue = _edit_text(call, issue, change)
    issue = _edit_state(call, issue, change)
    if change.labels is not None:
        issue = set_labels(call, issue, change.labels)
    if change.assignees is not None:
        issue = _set_assignees(call, issue, change.assignees)
    return issue if issue is before else touch(call, issue)


def touch(call: Call, issue: Issue, **values: Any) -> Issue:
    """A new version with `updated_at` moved to now."""
    return call.world.put(replace(issue, updated_at=call.world.now(), **values))


def set_labels(call: Call, issue: Issue, names: list[str]) -> Issue:
    """Make these the labels; unknown ones are made on the way, as GitHub does."""
    wanted = list(dict.fromkeys(_label(call, name).id for name in names))
    world = call.world
    for label_id in [*issue.labels, *wanted]:
        added, had = label_id in wanted, label_id in issue.labels
        label = world.truth.get(Label, label_id)
        if added != had and label is not None:
            event = "labeled" if added else "unlabeled"
            world.note(issue, event, call.actor, label=label.name, color=label.color)
            world.tell("issues", issue, event, call.actor)
    if set(wanted) == set(issue.labels):
        return issue
    return replace(issue, labels=tuple(wanted))


def _label(call: Call, name: str) -> Label:
    name = name.strip()
    if not name or len(name) > 50:
        raise invalid("Label", "name", "invalid")
    found = call.world.truth.find(Label, call.repo.id, name.lower())
    if found is not None:
        return found
    return call.world.put(
        Label(id=call.world.new_id("label"), repo_id=call.repo.id, name=name, color=COLOR)
    )


def _edit_text(call: Call, issue: Issue, change: Change) -> Issue:
    title = issue.title if change.title is None else change.title
    body = issue.body if change.body is None and not change.clear_body else change.body
    if (title, body) == (issue.title, issue.body):
        return issue
    if title != issue.title:
        call.world.note(issue, "renamed", call.actor, **{"from": issue.title, "to": title})
    issue = replace(issue, title=title, body=body)
    call.world.tell("issues", issue, "edited", call.actor)
    return issue


def _edit_state(call: Call, issue: Issue, change: Change) -> Issue:
    state = change.state or issue.state
    if state == issue.state:
        return issue
    world = call.world
    if state == "closed":
        world.note(issue, "closed", call.actor)
        reason = None if issue.pull else change.reason or "completed"
        issue = replace(
            issue, state=state, state_reason=reason, closed_at=world.now(), closed_by=call.actor
        )
    else:
        world.note(issue, "reopened", call.actor)
        reason = None if issue.pull else "reopened"
        issue = replace(issue, state=state, state_reason=reason, closed_at=None, closed_by=None)
    world.tell("issues", issue, "closed" if state == "closed" else "reopened", call.actor)
    return issue


def _set_assignees(call: Call, issue: Issue, logins: list[str]) -> Issue:
    known = [call.world.truth.find(User, login.lower()) for login in dict.fromkeys(logins)]
    if None in known:
        raise invalid("Issue", "assignees", "invalid")
    wanted = tuple(user.login for user in known if user)
    for login in dict.fromkeys([*issue.assignees, *wanted]):
        if (login in wanted) != (login in issue.assignees):
            event = "assigned" if login in wanted else "unassigned"
            call.world.note(issue, event, call.actor, assignee=login)
            call.world.tell("issues", issue, event, call.actor)
    return issue if wanted == issue.assignees else replace(issue, assignees=wanted)
