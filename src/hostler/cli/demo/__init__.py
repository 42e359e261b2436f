"""`hostler demo`: the whole way of several issues, on this machine alone."""
