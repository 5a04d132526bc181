"""The pytest plugin; the only place that imports pytest.

This module is loaded at every pytest start, so it imports nothing but pytest and the options, and
does nothing until a sweep option is set or a marked test is collected.
"""

from collections.abc import Generator
from typing import Any

import pytest

from pytest_infranoise.plugin.options import add_options

_MARKER_HELP = (
    "infra(memory, cpus=None, image=None, timeout=None): run this test in a sandbox with these "
    "resources, over the parameter sets of --infra-multipliers; needs the fixture infra_sandbox"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Register the options."""
    add_options(parser)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare the hooks that a suite can answer."""
    from pytest_infranoise.plugin import hookspecs

    pluginmanager.add_hookspecs(hookspecs)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config, args: list[str]) -> None:
    """Keep the configuration of task folders out of a sweep."""
    from pytest_infranoise.plugin.isolation import needs_shield, shield_start

    if needs_shield(early_config):
        shield_start(early_config, args)


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and the hooks of this process's role."""
    config.addinivalue_line("markers", _MARKER_HELP)
    if config.option.help or config.option.version:
        return
    from pytest_infranoise.plugin.roles import register

    register(config)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run marked tests over the parameter sets."""
    if "infra_sandbox" in metafunc.fixturenames:
        from pytest_infranoise.plugin.marked import parametrize

        parametrize(metafunc)


@pytest.fixture
def infra_sandbox(request: pytest.FixtureRequest) -> Generator[Any]:
    """A sandbox with this trial's limits: `exec`, `put`, `get`, `allocation`, `oom_kills`.

    The test needs `@pytest.mark.infra(memory="512M", cpus=1, image="...", timeout=600)`.
    See `pytest_infranoise.plugin.sandbox.InfraSandbox`.
    """
    from pytest_infranoise.plugin.marked import open_sandbox

    yield from open_sandbox(request)
