"""Sandboxes as containers of a Docker Engine, through its API.

`connection` finds the engine, `images` makes what a task needs, `backend` opens containers and
`sandbox` works in one: `execution` runs its steps, `copying` moves files, `counters` reads what the
kernel counted. `failures` turns the client library's exceptions into ours.
"""
