"""The interface to code hosts: what is read from them, and what is written to them.

In reading order: `port` has the interface `Forge` and its values, `actions` the writes as data,
`outbox` sends them once, `labels` queues missing labels, `checks` is for `hostler doctor`.
`github` is the implementation for GitHub; `port`, `actions` and `outbox` must not import it.
"""
