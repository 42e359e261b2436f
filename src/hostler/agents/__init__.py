"""The agents: how each kind is launched, what its stream means, and how its end is judged."""
