"""What GitHub's own interface can do to an issue and its REST API cannot: delete and transfer."""

from __future__ import annotations

from dataclasses import replace

from hostler.sandbox.entities import Comment, Event, Issue, Moved, Repo
from hostler.sandbox.world import World


def delete_issue(world: World, issue: Issue) -> None:
    """Remove an issue with its comments; its number answers 410 from then on."""
    for comment in list(world.truth.group(Comment, "issue", issue.id).select()):
        world.remove(comment)
    for event in list(world.truth.group(Event, "issue", issue.id).select()):
        world.remove(event)
    world.remove(issue)
    world.put(Moved(world.new_id("moved"), issue.repo_id, issue.number))
    world.tell("issues", issue, "deleted", issue.user)


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
    for event in list(world.truth.group(Event, "issue", issue.id).select()):
        world.put(replace(event, repo_id=target.id, issue_id=made.id))
    world.put(
        Moved(
            world.new_id("moved"), issue.repo_id, issue.number, to_repo=target.id, to_number=number
        )
    )
    world.tell("issues", made, "transferred", issue.user)
    return made
