"""The command line: parse, call, print. Rules live in other packages.

`main` is the entry point, `commands` has one module per group, `context` opens home and settings,
`output` prints, `foreground` runs what stays in the terminal, `demo` is `hostler demo`.
"""
