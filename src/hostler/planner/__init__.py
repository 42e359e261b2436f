"""Which task may start: the queue of root tasks, and dependencies between tasks and issues.

In reading order: `dependencies` has pure rules about names, cycles and blockers; `queue` has
positions and free slots, and reads both from the database. Nothing here starts a task or uses the
network.
"""
