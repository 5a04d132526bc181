"""What the manifest keeps of ini file, environment and plugins."""

import pytest

from pytest_infranoise.plugin.surroundings import ini_facts, plugin_versions

INI = """
[pytest]
addopts = -q --api-key=sk-live-1
infra_multipliers = 1,3
infra_agent = run --token sk-live-2
infra_note = team=blue
    my-secret=sk-live-3
"""


@pytest.fixture
def facts(pytester, monkeypatch):
    def read(ini="", environment=None):
        monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
        if ini:
            pytester.makeini(ini.replace("--api-key=sk-live-1", ""))
        config = pytester.parseconfig()
        if ini:  # pytest itself would refuse the option
            config._inicache["addopts"] = ["-q", "--api-key=sk-live-1"]
        if environment:
            monkeypatch.setenv("PYTEST_ADDOPTS", environment)
        return ini_facts(config)

    return read


def test_without_a_file_nothing_was_said(facts):
    assert facts() == {"file": None, "options": {}, "addopts": [], "environment_addopts": []}


def test_what_the_file_and_the_environment_say_without_secrets(facts):
    found = facts(INI, "-x --password hunter2")
    assert found == {
        "file": "tox.ini",
        "options": {
            "infra_multipliers": "1,3",
            "infra_agent": "run --token <redacted>",
            "infra_note": ["team=blue", "my-secret=<redacted>"],
        },
        "addopts": ["-q", "--api-key=<redacted>"],
        "environment_addopts": ["-x", "--password", "<redacted>"],
    }


def test_versions_of_plugins(pytester):
    found = plugin_versions(pytester.parseconfig())
    assert found["pytest-infranoise"]
    assert list(found) == sorted(found)
