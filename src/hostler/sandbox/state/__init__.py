"""The state of a sandbox: clock, tables of entities, the world, seeds, the state file."""
