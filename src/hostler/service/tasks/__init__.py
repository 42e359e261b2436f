"""What people do with tasks: submit, control, inspect, and run in the foreground.

In reading order: `submission` stores a new manual task, `control` changes tasks, `details` finds
one and reads all about it, `summary` describes one briefly, `foreground` follows one until no
agent is needed.
"""
