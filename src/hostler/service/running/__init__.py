"""What happens around one run of an agent.

In reading order: `run_hooks` has the callbacks of a run, `launch` prepares its checkout and prompt.
`run_state`, `bus_messages` and `budgets` are what they need: sessions, DONE files, bus messages,
spending. Which task runs when is decided in `service.scheduling`.
"""
