"""GitHub's rate limits: our share of them, and the priority of requests.

`limits` has the rules (pure functions), `accounts` applies them for all threads, `cost_model`
estimates what polling costs.
"""
