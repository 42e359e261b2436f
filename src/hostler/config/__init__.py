"""The operator's settings: one place for every key, its default, range and meaning.

In reading order: `settings` has the keys, `loader` reads the file, `validation` finds mistakes,
`pools` reads `governor.json`, `editor` and `template` write, `reference` documents.
"""
