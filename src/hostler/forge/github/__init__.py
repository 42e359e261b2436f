"""GitHub as a code host.

In reading order: `hub` connects, `client` has requests, pages and login, `payloads` parses JSON,
`polling` brings changes into the inbox, `rate_limit` keeps requests within GitHub's limits.
"""
