"""The JSON of each kind of entity.

Read `base` (the registries and the cache of rendered bytes), then `repos`, `issues`, `pulls`, `ci`.
Serializers read entities and never change them.
"""
