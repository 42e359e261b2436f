"""Reactions to comments."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hostler.sandbox.call import Call
from hostler.sandbox.entities import Comment
from hostler.sandbox.errors import forbidden, invalid, not_found
from hostler.sandbox.http import Response, json_response, no_content
from hostler.sandbox.moments import iso
from hostler.sandbox.paging import Listed
from hostler.sandbox.router import REPO, Router
from hostler.sandbox.shapes.issues import REACTIONS
from hostler.sandbox.shapes.people import node_id, simple_user

router = Router()
ALL = REPO + "/issues/comments/{comment_id}/reactions"
Reaction = tuple[int, str, str]


@router.route("GET", ALL)
def list_all(call: Call) -> Response:
    """Who reacted how."""
    comment = _comment(call)
    content = call.request.query.get("content")
    wanted = [given for given in comment.reactions if content in (None, given[2])]
    chosen, headers = call.cut(Listed(wanted))
    response = json_response([_shape(call, comment, given) for given in chosen])
    response.headers.update(headers)
    return response


@router.route("POST", ALL, creates=True)
def add(call: Call) -> Response:
    """React; the same reaction a second time is answered 200. No `updated_at` moves."""
    comment = _comment(call)
    content = call.fields("Reaction").choice("content", REACTIONS)
    if content is None:
        raise invalid("Reaction", "content", "missing_field")
    for given in comment.reactions:
        if given[1:] == (call.actor, content):
            return json_response(_shape(call, comment, given))
    made = (call.world.new_id("reaction"), call.actor, content)
    call.world.put(replace(comment, reactions=(*comment.reactions, made)))
    return json_response(_shape(call, comment, made), 201)


@router.route("DELETE", ALL + "/{reaction_id}")
def remove(call: Call) -> Response:
    """Take a reaction back."""
    comment, wanted = _comment(call), call.number("reaction_id")
    given = next((given for given in comment.reactions if given[0] == wanted), None)
    if given is None:
        raise not_found()
    if given[1].lower() != call.actor.lower():
        raise forbidden()
    kept = tuple(other for other in comment.reactions if other != given)
    call.world.put(replace(comment, reactions=kept))
    return no_content()


def _comment(call: Call) -> Comment:
    found = call.tables.get(Comment, call.number("comment_id"))
    if found is None or found.repo_id != call.repo.id:
        raise not_found()
    return found


def _shape(call: Call, comment: Comment, given: Reaction) -> dict[str, Any]:
    return {
        "id": given[0],
        "node_id": node_id("Reaction", given[0]),
        "user": simple_user(given[1], call.frame),
        "content": given[2],
        "created_at": iso(comment.created_at),
    }
