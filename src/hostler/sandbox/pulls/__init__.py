"""Pull requests and their reviews.

Read `entities`, `changes` (open, edit, merge), `mergeability`, `pushes` (what moved refs do) and
`review_comments`. A caller that moves refs holds the repository's lock.
"""
