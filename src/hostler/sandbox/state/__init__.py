"""The state of a sandbox.

Read `tables` (entities by id, name and group), `entities`, `clock`, `world` (what is true and what
readers see), `seed` (fill a world) and `state_file` (save and load). It knows no HTTP requests.
"""
