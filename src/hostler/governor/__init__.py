"""The governor: decides whether one more agent may start.

In reading order: `policy` has the operator's limits, `gates` decides, `leases` acquires and
releases in an open transaction, `holders` knows the processes that hold leases, `parking` closes
pools until a given time, `adaptive` lets caps follow what providers answer, `caps_file` is what
operators change at run time, `status` shows it all.

It starts no process and knows no tasks or repositories. Guarantees: docs/internals/governor.md.
"""
