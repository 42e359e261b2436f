"""The HTTP API: routes over the snapshot and the store, behind doors."""
