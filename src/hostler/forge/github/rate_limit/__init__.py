"""GitHub's rate limits: our share of them, and which request goes first.

`limits` has the rules (pure functions), `accounts` applies them for all threads, `cost_model`
estimates what polling costs.
"""
