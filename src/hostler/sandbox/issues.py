"""What can happen to an issue, with its events and webhooks. Pull requests use it too."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from hostler.sandbox.http.call import ApiCall
from hostler.sandbox.http.errors import invalid
from hostler.sandbox.http.requests import JsonFields
from hostler.sandbox.pulls.entities import PullRequest
from hostler.sandbox.state.entities import (
    Comment,
    Issue,
    Label,
    MovedIssue,
    PullState,
    Repo,
    TimelineEvent,
)
from hostler.sandbox.state.tables import Entity
from hostler.sandbox.state.world import World

STATE_REASONS = ("completed", "not_planned", "reopened", "duplicate")
DEFAULT_LABEL_COLOR = "ededed"
MAX_LABEL_LENGTH = 50


@dataclass(frozen=True)
class IssueChange:
    """The fields that a request wants changed; None leaves a field as it is."""

    title: str | None = None
    body: str | None = None
    clear_body: bool = False
    state: str | None = None
    reason: str | None = None
    labels: list[str] | None = None
    assignees: list[str] | None = None

    @classmethod
    def read(cls, fields: JsonFields, only: tuple[str, ...] = ()) -> IssueChange:
        """Return the change that a JSON body asks for."""
        if only:
            return cls(labels=label_names(fields), assignees=fields.texts("assignees"))
        return cls(
            title=fields.text("title", required="title" in fields, limit=256),
            body=fields.body(),
            clear_body="body" in fields and fields.values["body"] is None,
            state=fields.choice("state", ("open", "closed")),
            reason=fields.choice("state_reason", STATE_REASONS),
            labels=label_names(fields),
            assignees=fields.texts("assignees"),
        )


def label_names(fields: JsonFields) -> list[str] | None:
    """Return the names in `labels`, each given as text or as an object with a name."""
    values = fields.values.get("labels")
    if isinstance(values, list):
        named = [item.get("name") if isinstance(item, dict) else item for item in values]
        return JsonFields(fields.resource, {"labels": named}).texts("labels")
    return fields.texts("labels")


def open_issue(call: ApiCall, title: str, body: str | None, pull: PullState | None = None) -> Issue:
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


def check_change(call: ApiCall, change: IssueChange, issue: Issue | None = None) -> None:
    """Refuse a change as a whole: once it has begun, nothing in it can be refused."""
    for name in change.labels or ():
        if not 0 < len(name.strip()) <= MAX_LABEL_LENGTH:
            raise invalid("Label", "name", "invalid")
    if any(call.world.user(login) is None for login in change.assignees or ()):
        raise invalid("Issue", "assignees", "invalid")
    merged = issue and issue.pull and issue.pull.merged_at is not None
    if merged and change.state == "open":
        raise invalid("Issue", "state", "invalid", "state cannot be changed. It is merged.")


def change_issue(call: ApiCall, issue: Issue, change: IssueChange) -> Issue:
    """Apply a change, with one event and one webhook per thing that really changed."""
    check_change(call, change, issue)
    edit = _IssueEdit(call, issue)
    edit.text(change)
    edit.state(change)
    if change.labels is not None:
        edit.labels(change.labels)
    if change.assignees is not None:
        edit.assignees(change.assignees)
    return edit.done()


def touch_issue(call: ApiCall, issue: Issue, **values: Any) -> Issue:
    """Return a new version with `updated_at` moved to now."""
    return call.world.put(replace(issue, updated_at=call.world.now(), **values))


class _IssueEdit:
    """An issue on its way from one version to the next, with what happened to it."""

    def __init__(self, call: ApiCall, issue: Issue) -> None:
        self._call = call
        self._world = call.world
        self._before = self._issue = issue
        self._actions: list[tuple[str, dict[str, Any]]] = []

    def done(self) -> Issue:
        """Save the new version and publish its events; return the old one if nothing changed."""
        if self._issue is self._before:
            return self._before
        made = touch_issue(self._call, self._issue)
        event, told = _webhook_subject(self._world, made)
        for action, more in self._actions:
            self._world.publish(event, told, action, self._call.actor, **more)
        return made

    def text(self, change: IssueChange) -> None:
        """Title and body."""
        issue = self._issue
        title = issue.title if change.title is None else change.title
        body = issue.body if change.body is None and not change.clear_body else change.body
        if (title, body) == (issue.title, issue.body):
            return
        if title != issue.title:
            self._note("renamed", **{"from": issue.title, "to": title})
        self._issue = replace(issue, title=title, body=body)
        before = {"title": issue.title, "body": issue.body}
        after = {"title": title, "body": body}
        changes = {name: {"from": before[name]} for name in after if after[name] != before[name]}
        self._actions.append(("edited", {"changes": changes}))

    def state(self, change: IssueChange) -> None:
        """Open or closed."""
        issue, state = self._issue, change.state or self._issue.state
        if state == issue.state:
            return
        closing = state == "closed"
        event = "closed" if closing else "reopened"
        reason = (change.reason or "completed") if closing else "reopened"
        self._issue = replace(
            issue,
            state=state,
            state_reason=None if issue.pull else reason,
            closed_at=self._world.now() if closing else None,
            closed_by=self._call.actor if closing else None,
        )
        self._note(event)
        self._actions.append((event, {}))

    def labels(self, names: list[str]) -> None:
        """Make these the labels; unknown ones are made on the way, as GitHub does."""
        had = self._issue.labels
        wanted = tuple(dict.fromkeys(_find_or_create_label(self._call, name).id for name in names))
        for label_id in dict.fromkeys([*had, *wanted]):
            label = self._world.truth.get(Label, label_id)
            if (label_id in wanted) != (label_id in had) and label is not None:
                event = "labeled" if label_id in wanted else "unlabeled"
                self._note(event, label=label.name, color=label.color)
                self._actions.append((event, {"label": label}))
        if set(wanted) != set(had):
            self._issue = replace(self._issue, labels=wanted)

    def assignees(self, logins: list[str]) -> None:
        """Make these the assignees."""
        known = [self._world.user(login) for login in logins]
        had = self._issue.assignees
        wanted = tuple(dict.fromkeys(user.login for user in known if user))
        for login in dict.fromkeys([*had, *wanted]):
            if (login in wanted) != (login in had):
                event = "assigned" if login in wanted else "unassigned"
                self._note(event, assignee=login)
                self._actions.append((event, {"assignee": self._world.user(login)}))
        if wanted != had:
            self._issue = replace(self._issue, assignees=wanted)

    def _note(self, event: str, **detail: str) -> None:
        self._world.add_issue_event(self._before, event, self._call.actor, **detail)


def _webhook_subject(world: World, issue: Issue) -> tuple[str, Entity]:
    """Return the webhook event and entity: pull_request for a pull request, else issues."""
    pull = world.truth.find(PullRequest, "issue", issue.id) if issue.pull else None
    return ("pull_request", pull) if pull else ("issues", issue)


def _find_or_create_label(call: ApiCall, name: str) -> Label:
    name = name.strip()
    found = call.world.truth.find(Label, call.repo.id, name.lower())
    if found is not None:
        return found
    return call.world.put(
        Label(
            id=call.world.new_id("label"),
            repo_id=call.repo.id,
            name=name,
            color=DEFAULT_LABEL_COLOR,
        )
    )


def delete_issue(world: World, issue: Issue) -> None:
    """Remove an issue with its comments; its number answers 410 from then on."""
    for comment in list(world.truth.group(Comment, "issue", issue.id).select()):
        world.remove(comment)
    for event in list(world.truth.group(TimelineEvent, "issue", issue.id).select()):
        world.remove(event)
    world.remove(issue)
    world.put(MovedIssue(world.new_id("moved"), issue.repo_id, issue.number))
    world.publish("issues", issue, "deleted", issue.user)


def transfer_issue(world: World, issue: Issue, target: Repo) -> Issue:
    """Move an issue with its comments; its old number answers 301 from then on."""
    now, number = world.now(), world.next_number(target)
    world.remove(issue)
    made = replace(
        issue,
        id=world.new_id("issue"),
        repo_id=target.id,
        number=number,
        labels=(),
        updated_at=now,
    )
    world.put(made)
    for comment in list(world.truth.group(Comment, "issue", issue.id).select()):
        world.put(replace(comment, repo_id=target.id, issue_id=made.id, number=number))
    for event in list(world.truth.group(TimelineEvent, "issue", issue.id).select()):
        world.put(replace(event, repo_id=target.id, issue_id=made.id))
    world.put(
        MovedIssue(
            world.new_id("moved"), issue.repo_id, issue.number, to_repo=target.id, to_number=number
        )
    )
    world.publish("issues", made, "transferred", issue.user)
    return made
