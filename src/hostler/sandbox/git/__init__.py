"""Real git behind the sandbox: bare repositories, smart HTTP, merges, comparison, file edits.

Read `process` (one git command), `repository` (bare repositories on disk), `names` and `refs`,
`commits` (read, compare, merge), `diffs`, `files`, then `http_backend` and `smart_http` (clone,
fetch and push). It knows ids and tokens only through callbacks and never imports the rest of the
sandbox except `state.clock`.
"""
