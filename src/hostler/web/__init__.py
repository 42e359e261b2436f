"""The HTTP API and the dashboard.

Reading order: `server` listens; `middleware` and `auth` check each request; `app` assembles the
`routes`, which read and change data through `context`; `live` streams changes; `pages` serves the
dashboard in `static`; `redaction` removes secrets from every response; `discovery` and `client` let
commands on this machine call a running service. No scheduling or task rule belongs here.
"""
