"""Adapters for agent CLIs, one module per program.

`base` has the interface and what adapters share, `registry` lists the kinds, `json_access` and
`provider_errors` help to read what programs print.
"""
