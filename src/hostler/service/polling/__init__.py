"""Poll the watched repositories.

`orchestrator` decides when each repository is polled and on which thread, `repo_poller` polls one,
`webhooks` triggers a poll early. Nothing here starts agents.
"""
