"""A code host in memory for tests of other packages. It passes the contract tests of `Forge`.

`state` holds the repository, `repository` is the port.
"""
