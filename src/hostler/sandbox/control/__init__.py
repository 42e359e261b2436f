"""Test controls.

`faults` says which requests go wrong and how, `ledger` records what was asked and answered, and
`endpoints` serves both, and the other controls, below /_sandbox.
"""
