"""HTTP: from a socket to a handler and back.

Read `server` (uvicorn, with a way to cut connections), `requests`, `errors`, `router`, `pipeline`
(the way of a request), `call` (what a handler gets), `pagination`, `conditional_requests` and
`rate_limits`. It knows no single resource; those are in `api`.
"""
