"""Decide which tasks start, and hand them to workers.

In reading order: `gates` (what can deny a start), `placement` (agent and pool), `admission`
(evaluate and begin in one transaction), `dispatch` (one pass over all tasks), `workers` (threads),
`task_waits` (waiting inside a run), `explain` (`hostler why`), `maintenance` (periodic work).
"""
