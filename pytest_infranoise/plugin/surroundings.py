"""What a run was told by others than its command line: the ini file, the environment, plugins."""

import os
from typing import Any

import pytest

from pytest_infranoise.plugin.options import OPTIONS
from pytest_infranoise.study.redact import redact_arguments


def ini_facts(config: pytest.Config) -> dict[str, Any]:
    """Return what the configuration file and `PYTEST_ADDOPTS` say, without secrets.

    `file` is the name of the file alone, `options` are this plugin's own in it, by ini name.
    """
    path = config.inipath
    environment = os.environ.get("PYTEST_ADDOPTS")
    return {
        "file": None if path is None else path.name,
        "options": {
            spec.dest: _hidden(spec.flag, value)
            for spec in OPTIONS
            if (value := config.getini(spec.dest)) not in (None, "", [], False)
        },
        "addopts": redact_arguments([str(item) for item in config.getini("addopts")]),
        "environment_addopts": redact_arguments(environment.split()) if environment else [],
    }


def _hidden(flag: str, value: Any) -> Any:
    """Return an option's value, or each of its values, with what looks like a secret hidden."""
    if isinstance(value, list):
        return [_hidden(flag, item) for item in value]
    if not isinstance(value, str):
        return value
    return redact_arguments([f"{flag}={value}"])[0].removeprefix(f"{flag}=")


def plugin_versions(config: pytest.Config) -> dict[str, str]:
    """Return the distributions whose plugins are loaded, with their versions."""
    found = {
        dist.project_name: dist.version for _, dist in config.pluginmanager.list_plugin_distinfo()
    }
    return dict(sorted(found.items()))
