"""The message bus: an append-only file of JSON lines per task and per project.

In reading order: `message` has messages and their encoding, `bus` is the API for other packages,
`reader` and `writer` work on `files`, `watch` waits for new messages.
"""
