"""A sweep started in this folder without a path runs the example tasks, not the project's tests.

The plugin itself is registered by its entry point, never here.
"""

import pytest

from pytest_infranoise.plugin.options import OPTIONS


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Replace `testpaths` by example_tasks when the command line asks for a sweep.

    An ini twin does not redirect: it would leave plain `pytest` without the project's tests.
    Workers of xdist get the controller's command line, so they come to the same answer.
    """
    sources = pytest.Config.ArgsSource
    # The machine of tests/vm has this folder without the plugin's entry point.
    has_own = getattr(config.option, "infra_swebench", None) is not None
    if config.args_source is sources.TESTPATHS and _sweeps(config.option) and not has_own:
        config.args = [str(config.rootpath / "example_tasks")]
        config.args_source = sources.ARGS  # else the header would go on naming testpaths


def _sweeps(options: object) -> bool:
    return any(getattr(options, spec.dest, None) for spec in OPTIONS if spec.is_sweep)
