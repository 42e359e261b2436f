"""Operator commands in comments on GitHub.

`executor` carries out stored commands, `targets` finds what they are about, `replies` has the
texts.
"""
