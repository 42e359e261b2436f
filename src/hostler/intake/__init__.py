"""Turn events of the inbox into tasks, feedback and operator commands, each with a reason.

In reading order: `model` has events and effects, `process` goes through the inbox, `decisions`
chooses the rule, `rules`, `ci` and `operator_commands` are the rules, and `repo_policy` says who is
allowed. `markdown` and `operator_syntax` parse texts; `manual_start` is `hostler run`. No network
request is made inside a transaction.
"""
