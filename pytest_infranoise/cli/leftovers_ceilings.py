"""Shared memory ceilings of dead runs."""

from pytest_infranoise.backends.ceilings import find_unheld
from pytest_infranoise.backends.cgroup_paths import find_hierarchies
from pytest_infranoise.cli.leftovers import Found, Life


def ceilings() -> list[Found]:
    """Return the ceilings on this host that no process holds; whoever uses one holds a lock."""
    trees = find_hierarchies()
    return [
        Found("memory ceiling", str(folder), study, Life.DEAD, "nobody holds it", remove)
        for study, folder, remove in (() if trees is None else find_unheld(trees))
    ]
