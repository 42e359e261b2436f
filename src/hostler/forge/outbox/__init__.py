"""Writes to the code host: queued in the transaction of their cause, sent exactly once.

`queue` adds rows and stores results, `rules` decides (pure functions), `sender` sends what is due,
`reconciler` looks for writes that no poll has shown.
"""
