"""`${VAR}` and `${VAR:-default}` in a task's environment tables."""

import re
from collections.abc import Mapping

from pytest_infranoise.errors import UsageError
from pytest_infranoise.tasks.place import Place

_WHOLE = re.compile(r"\$\{(?P<name>[^}:]+)(?::-(?P<default>.*))?\}", re.DOTALL)


def resolve(
    values: Mapping[str, str], host: Mapping[str, str], *, table: str, place: Place
) -> dict[str, str]:
    """Return `values` with every template replaced from `host`.

    A template is a whole value, as in the format's own harness; `${VAR}` within a longer value is
    passed on as it stands. A variable that is set but empty counts as set.

    Raises:
        UsageError: a variable without default is not set, or a name cannot be a variable's.
    """
    resolved = {}
    for name, value in values.items():
        where = place.key(table, "env", name)
        if not name or "=" in name or "\0" in name or "\0" in value:
            raise UsageError(f"{where}: not a name and value that an environment can hold")
        match = _WHOLE.fullmatch(value)
        if match is None:
            resolved[name] = value
            continue
        found = host.get(match["name"], match["default"])
        if found is None:
            raise UsageError(
                f"{where}: {match['name']} is not set here; set it, or give a default: "
                f"${{{match['name']}:-default}}"
            )
        resolved[name] = found
    return resolved
