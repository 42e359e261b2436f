"""What happens around one run of an agent.

`run_hooks` prepares and finishes runs in repositories, `folder_runs` those in local folders.
`run_state`, `bus_messages` and `budgets` are what they need: sessions, DONE files, messages,
spending.
"""
