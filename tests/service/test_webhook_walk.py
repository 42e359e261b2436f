"""From GitHub's delivery to a task, long before the next poll is due."""

from __future__ import annotations

from service_town import ALICE, REPO, Town

from hostler.config.settings import GitHub
from hostler.service.polling.webhooks import receive_webhooks
from hostler.store.tasks import TaskState

SECRET = "a long and lovely secret"


def test_a_webhook_triggers_the_poll_of_its_repository(town: Town, monkeypatch):
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    town.runtime = {"poll_interval_seconds": 86_400}
    alice = town.person(ALICE)
    settings = GitHub(webhook_listen="127.0.0.1:0", webhook_secret_env="HOOK_SECRET")
    answers: list[int] = []
    with (
        town.service() as service,
        receive_webhooks(settings, service.runner.poll_repository_soon, answers.append) as receiver,
    ):
        assert receiver is not None
        # The first look of a service is at once; this one is over.
        service.until(lambda: service.runner._parts.orchestrators[0].seconds_left())
        alice(
            "POST",
            "/hooks",
            config={
                "url": f"http://127.0.0.1:{receiver.port}/webhook",
                "content_type": "json",
                "secret": SECRET,
            },
            events=["issues", "issue_comment"],
        )
        number = alice.file("Notes", "agent:small-job")
        task = service.task(number, TaskState.AWAITING_FEEDBACK)
        assert 202 in answers and task.repo_full_name == REPO
        # A repository that nobody watches is no news.
        service.runner.poll_repository_soon("somebody/else")
