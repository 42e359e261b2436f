"""Garbage collection: remove what is old and unused, keep what is live, dirty or young.

`collector` runs the collectors of `files` and `database`; `rules` decides by pure functions;
`context` has inputs and results; `folders` removes folders safely.
"""
