"""GitHub's REST API: from one HTTP request up to one repository.

`transport` sends a request, `credentials` logs in, `session` adds redirects and retries,
`pagination` reads lists, `actions` performs and finds writes, `repository` implements `Forge`
with them.
"""
