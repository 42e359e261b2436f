"""The scripted agent for demonstrations and tests.

`script` reads a script, `player` and `steps` play it in a process of their own, which
`adapter` starts. All but `adapter` use the standard library only.
"""
