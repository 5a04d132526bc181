"""What lines and manifests of older versions mean today.

Each entry of `UPGRADES` turns the values of one schema version into those of the next; a reader
applies them one after another. Adding a key with a default needs no new version.
"""

from collections.abc import Callable, Mapping
from typing import Any

from pytest_infranoise.errors import UsageError
from pytest_infranoise.model.trial import SCHEMA_VERSION

Upgrade = Callable[[dict[str, Any]], dict[str, Any]]

RECORD_UPGRADES: Mapping[int, Upgrade] = {}
MANIFEST_UPGRADES: Mapping[int, Upgrade] = {}


def upgrade(
    values: dict[str, Any],
    upgrades: Mapping[int, Upgrade],
    *,
    where: str,
    current: int = SCHEMA_VERSION,
) -> dict[str, Any]:
    """Return the values as the current version writes them.

    Raises:
        UsageError: the version is missing, unknown, or newer than this package.
    """
    version = values.get("schema_version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise UsageError(f"{where}: schema_version is {version!r}, not a whole number from 1")
    if version > current:
        raise UsageError(
            f"{where}: schema_version {version} was written by a newer version of "
            "pytest-infranoise; update it to read this study"
        )
    while version < current:
        step = upgrades.get(version)
        if step is None:
            raise UsageError(f"{where}: schema_version {version} can no longer be read")
        version += 1
        values = {**step(values), "schema_version": version}
    return values
