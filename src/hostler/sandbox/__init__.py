"""A strict local imitation of GitHub: REST, webhooks, App tokens, real git, faults on demand.

Read `app` (what answers a request), `http/pipeline` (the way of an API request), `http/call` (what
a handler works with), `api/` (the handlers), `state/world` (all state). `server` runs a sandbox.
Nothing here imports the rest of Hostler except `hostler.errors` and `hostler.model`, and only the
command line and tests import the sandbox.
"""
