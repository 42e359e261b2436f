"""Labels of a repository, and of an issue."""

from __future__ import annotations

import re
from dataclasses import replace

from hostler.sandbox.call import Call
from hostler.sandbox.entities import Issue, Label
from hostler.sandbox.errors import invalid, not_found
from hostler.sandbox.fields import Fields
from hostler.sandbox.http import Response, no_content
from hostler.sandbox.issuing import Change, change_issue, label_names
from hostler.sandbox.router import REPO, Router

router = Router()
ONE = REPO + "/labels/{name}"
OF_ISSUE = REPO + "/issues/{number}/labels"
_COLOR = re.compile(r"[0-9a-fA-F]{6}")


@router.route("GET", REPO + "/labels")
def list_all(call: Call) -> Response:
    """All labels."""
    return call.page(call.tables.group(Label, "repo", call.repo.id).select())


@router.route("POST", REPO + "/labels", access="triage", creates=True)
def create(call: Call) -> Response:
    """A new label."""
    fields = call.fields("Label")
    name = _free_name(call, fields, "name", None)
    label = Label(call.world.new_id("label"), call.repo.id, name)
    return call.one(call.world.put(_painted(label, fields)), 201)


@router.route("GET", ONE)
def get(call: Call) -> Response:
    """One label."""
    return call.one(_label(call))


@router.route("PATCH", ONE, access="triage")
def edit(call: Call) -> Response:
    """Rename or repaint."""
    label, fields = _label(call), call.fields("Label")
    if "new_name" in fields:
        label = replace(label, name=_free_name(call, fields, "new_name", label))
    return call.one(call.world.put(_painted(label, fields)))


@router.route("DELETE", ONE, access="triage")
def delete(call: Call) -> Response:
    """Remove it from the repository and from all issues."""
    label = _label(call)
    for issue in call.tables.group(Issue, "repo", call.repo.id).select():
        if label.id in issue.labels:
            kept = tuple(known for known in issue.labels if known != label.id)
            call.world.put(replace(issue, labels=kept))
    call.world.remove(label)
    return no_content()


@router.route("GET", OF_ISSUE)
def list_for_issue(call: Call) -> Response:
    """An issue's labels."""
    return call.page(_labels_of(call, call.issue()))


@router.route("POST", OF_ISSUE, access="triage")
def add_to_issue(call: Call) -> Response:
    """More labels for an issue."""
    issue = call.issue()
    return _set(call, issue, [*_names_of(call, issue), *_wanted(call)])


@router.route("PUT", OF_ISSUE, access="triage")
def set_for_issue(call: Call) -> Response:
    """These labels and no others."""
    return _set(call, call.issue(), _wanted(call))


@router.route("DELETE", OF_ISSUE, access="triage")
def clear_issue(call: Call) -> Response:
    """No labels."""
    change_issue(call, call.issue(), Change(labels=[]))
    return no_content()


@router.route("DELETE", OF_ISSUE + "/{name}", access="triage")
def take_from_issue(call: Call) -> Response:
    """One label less; 404 if the issue has it not."""
    issue, name = call.issue(), call.params["name"].lower()
    names = _names_of(call, issue)
    kept = [known for known in names if known.lower() != name]
    if len(kept) == len(names):
        raise not_found()
    return _set(call, issue, kept)


def _set(call: Call, issue: Issue, names: list[str]) -> Response:
    return call.page(_labels_of(call, change_issue(call, issue, Change(labels=names))))


def _wanted(call: Call) -> list[str]:
    value = call.request.json_value()
    fields = Fields("Label", value if isinstance(value, dict) else {"labels": value})
    names = label_names(fields)
    if names is None:
        raise invalid("Label", "labels", "missing_field")
    return names


def _labels_of(call: Call, issue: Issue) -> list[Label]:
    found = (call.tables.get(Label, label_id) for label_id in issue.labels)
    return [label for label in found if label is not None]


def _names_of(call: Call, issue: Issue) -> list[str]:
    return [label.name for label in _labels_of(call, issue)]


def _label(call: Call) -> Label:
    found = call.tables.find(Label, call.repo.id, call.params["name"].lower())
    if found is None:
        raise not_found()
    return found


def _free_name(call: Call, fields: Fields, field: str, own: Label | None) -> str:
    name = fields.text(field, required=True, limit=50)
    assert name is not None
    other = call.tables.find(Label, call.repo.id, name.strip().lower())
    if other is not None and (own is None or other.id != own.id):
        raise invalid("Label", "name", "already_exists")
    return name.strip()


def _painted(label: Label, fields: Fields) -> Label:
    color = fields.text("color")
    if color is not None and not _COLOR.fullmatch(color):
        raise invalid("Label", "color", "invalid")
    description = fields.text("description", limit=100)
    return replace(
        label,
        color=(color or label.color).lower(),
        description=description if "description" in fields else label.description,
    )
