"""The HTTP API and the dashboard.

`server` listens, `middleware` and `auth` decide who may call, `app` puts the routes together,
`routes` answer from the store and the snapshot, `live` streams changes, `redaction` removes secrets
from every answer. `client` is how commands of this machine call a running service.
"""
