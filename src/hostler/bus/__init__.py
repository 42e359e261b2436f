"""The message bus: an append-only file of JSON lines per task and per project.

In reading order: `message` has messages and their encoding, `bus` is what other packages use,
`reader` and `writer` do the work on `files`, `watch` waits for new messages.
"""
