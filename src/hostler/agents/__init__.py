"""Agents: how each kind is started, what its stream means, and how the end of a run is judged.

In reading order: `assignment` is what an agent is given, `prepare` writes its files and builds its
command, `sandbox` limits what it can access, `adapters` know the programs, `events` is what they
print, `result` is what an agent leaves, `verdict` and `outcomes` judge the end. `classify` does
that for a recorded stream. The package itself imports nothing.
"""
