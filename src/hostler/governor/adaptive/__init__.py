"""Caps that follow what providers answer.

`model` has the state of a pool, `aimd` and `served` are the policies, `breaker` and `spacing` close
a pool for all starts, `state` stores it, `controller` applies events to it. The policies are pure
functions.
"""
