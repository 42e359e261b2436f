"""From an issue to a prompt, and from an agent's run to a pull request.

In reading order: `ingest` turns events into tasks, `turns` loads the inputs of a turn, `templates`
and `assignment` build the prompt, `workspace` prepares the checkout. After the run, `finish` pushes
the work, `outcomes` decides what follows, `effects` stores it; `comments` and `status_comment` have
the texts posted on GitHub. `commands`, `resume` and `manual_tasks` are what users request;
`pool_signals` informs the governor. Decisions are pure functions: they use no clock, no database
and no network.
"""
