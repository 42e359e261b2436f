"""The state of the whole service at one time, read-only, for every user interface.

`snapshot` reads it; `queue`, `activity` and `history` have its parts. It asks GitHub nothing and
writes nothing.
"""
