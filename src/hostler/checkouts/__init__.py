"""Git: mirrors of repositories, checkouts of tasks, and pushes. See docs/internals/checkouts.md.

In reading order: `mirror` and `preparation` make a checkout, `checkout` says where it is, `commits`
records what the agent did, `push` checks and pushes it, `cleanup` removes the checkout. `git` and
`process` run commands, `agent_folder` reads a folder that an agent may have tampered with.
"""
