"""The terminal screens `hostler top` and `hostler console`, drawn from the snapshot.

`snapshot_source` reads, `state` and `keys` hold what the person chose, `rows` and `renderer` turn a
snapshot into lines, `app` is the Textual application.
"""
