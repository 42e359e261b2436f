"""Commands of `hostler`, one module per command group.

`hostler.cli.main` imports these modules at every start: import other packages inside functions.
"""
