"""Reading the sandbox: everything that people can see on it, at one moment."""

from __future__ import annotations

from hostler.cli.demo.sight import GitHub, Issue, Pull, Remark, Said
from hostler.sandbox import entities, pull_entities
from hostler.sandbox.server import Running
from hostler.sandbox.world import World


class GitHubEyes:
    """Looks at the sandbox, and remembers how often the wording of each comment has changed."""

    def __init__(self, sandbox: Running, repos: tuple[str, ...]) -> None:
        self._sandbox = sandbox
        self._repos = repos
        self._wordings: dict[tuple[str, int], list[str]] = {}

    def look(self) -> GitHub:
        """What is visible now."""
        return self._sandbox.do(self._read)

    def _read(self, world: World) -> GitHub:
        world.settle()
        found = [repo for name in self._repos if (repo := world.repo(name))]
        issues: list[Issue] = []
        pulls: list[Pull] = []
        for repo in found:
            for item in world.seen.group(entities.Issue, "repo", repo.id).select():
                if item.pull is None:
                    issues.append(self._issue(world, repo.full_name, item))
                else:
                    pulls.append(self._pull(world, repo.full_name, item))
        return GitHub(tuple(issues), tuple(pulls))

    def _issue(self, world: World, repo: str, item: entities.Issue) -> Issue:
        labels = (world.seen.get(entities.Label, number) for number in item.labels)
        return Issue(
            repo=repo,
            number=item.number,
            title=item.title,
            author=item.user,
            open=item.state == "open",
            labels=tuple(label.name for label in labels if label),
            comments=self._comments(world, item),
        )

    def _pull(self, world: World, repo: str, item: entities.Issue) -> Pull:
        pull = world.seen.find(pull_entities.Pull, "issue", item.id)
        assert pull is not None
        reviews = world.seen.group(pull_entities.Review, "pull", pull.id).select()
        return Pull(
            repo=repo,
            number=item.number,
            title=item.title,
            body=item.body or "",
            author=item.user,
            branch=pull.head_ref,
            head=pull.head_sha,
            open=item.state == "open",
            merged_by=pull.merged_by,
            approved_by=tuple(one.user for one in reviews if one.state == "APPROVED"),
            commits=pull.size.commits,
            remarks=self._remarks(world, pull),
            comments=self._comments(world, item),
        )

    def _comments(self, world: World, item: entities.Issue) -> tuple[Said, ...]:
        found = world.seen.group(entities.Comment, "issue", item.id).select()
        return tuple(
            Said(one.id, one.user, one.body, self._versions("comment", one.id, one.body))
            for one in found
        )

    def _remarks(self, world: World, pull: pull_entities.Pull) -> tuple[Remark, ...]:
        found = world.seen.group(pull_entities.ReviewComment, "pull", pull.id).select()
        return tuple(
            Remark(
                one.id,
                one.user,
                one.body,
                self._versions("remark", one.id, one.body),
                one.path,
                one.spot.line,
                one.in_reply_to,
            )
            for one in found
        )

    def _versions(self, kind: str, number: int, body: str) -> int:
        wordings = self._wordings.setdefault((kind, number), [])
        if not wordings or wordings[-1] != body:
            wordings.append(body)
        return len(wordings)
