"""Poll GitHub for changes and store them as events in the inbox.

In reading order: `poller` is one poll, `schedule` says what it reads, `surfaces`, `threads` and
`workflow_runs` read it, `cursors` says from when, `ingest` stores it. `full_scan` is the reference
for the incremental polls, `context` what all of them share.
"""
