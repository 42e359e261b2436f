"""`hostler demo`: several issues on their way to merged pull requests, on this machine alone."""
