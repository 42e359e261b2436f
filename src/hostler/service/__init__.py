"""The service process: poll repositories, schedule tasks, run agents, send writes, restart.

`runner` is the main loop and `wiring` puts its parts together. `polling` reads GitHub, `scheduling`
decides what starts, `running` is what happens around one run, `tasks` is what people do with tasks,
`operator_commands` are comments that are commands, `notifications` tells people, `snapshot` is the
state that every screen shows, `gc` removes what is old.
"""
