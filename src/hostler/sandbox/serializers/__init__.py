"""The JSON of each kind of entity."""
