"""Version 4 of the `swebench` package, which knows the tests' commands of older data sets.

Rows of those say what is tested, not how; that stood in the package, by repository and version,
until version 5 moved it into the rows. `make_test_spec` of version 4 itself is not used: it asks
the network for files that only building an image needs.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from pytest_infranoise.tasks.swebench_scripts import TESTBED

NEEDS = ("repo", "version", "base_commit", "test_patch")
"""What a row must have for `OlderSpecs`."""

_EXIT_CODE = re.compile(r"^INFRANOISE_TEST_EXIT_CODE=(\d+)$", re.MULTILINE)
_SAVE = "infranoise_code=$?"
_SAY = 'echo "INFRANOISE_TEST_EXIT_CODE=$infranoise_code"'


@dataclass(frozen=True, slots=True)
class OlderSpecs:
    """How instances are tested, by the package's own tables.

    `constants`, `spec_class` and `make_script` are the package's; `parsers` its log parsers by
    repository.
    """

    constants: Any
    spec_class: Any
    make_script: Callable[..., list[str]]
    parsers: Mapping[str, Any]

    def knows(self, row: Mapping[str, Any]) -> bool:
        """Whether the tables have the row's repository and version."""
        return row["version"] in self.constants.MAP_REPO_VERSION_TO_SPECS.get(row["repo"], {})

    def evaluation_of(self, row: Mapping[str, Any]) -> dict[str, str]:
        """Return what newer data sets say in the row itself, but for the script."""
        fails_only = row["repo"] in self.constants.FAIL_ONLY_REPOS
        kinds = self.constants.EvalType
        return {
            "log_parser": self.parsers[row["repo"]].__name__,
            "eval_type": (kinds.FAIL_ONLY if fails_only else kinds.PASS_AND_FAIL).value,
        }

    def make_test_spec(self, row: Mapping[str, Any]) -> Any:
        """Return an instance's test spec, whose script also says how the tests' command ended."""
        repo, commit, patch = row["repo"], row["base_commit"], row["test_patch"]
        specs = self.constants.MAP_REPO_VERSION_TO_SPECS[repo][row["version"]]
        lines = self.make_script(row, specs, "testbed", TESTBED, commit, patch)
        end = lines.index(f": '{self.constants.END_TEST_OUTPUT}'")
        spec = self.spec_class(
            instance_id=row["instance_id"],
            repo=repo,
            version=row["version"],
            repo_script_list=[],
            env_script_list=[],
            eval_script_list=[*lines[:end], _SAVE, lines[end], _SAY, *lines[end + 1 :]],
            arch="x86_64",
            FAIL_TO_PASS=_names(row["FAIL_TO_PASS"]),
            PASS_TO_PASS=_names(row["PASS_TO_PASS"]),
            language=self.constants.MAP_REPO_TO_EXT[repo],
            docker_specs=specs.get("docker_specs", {}),
            namespace=None,
        )
        for name, value in self.evaluation_of(row).items():
            setattr(spec, name, value)
        return spec


def load_older() -> OlderSpecs:
    """Import what is needed of version 4.

    Raises:
        ImportError: it is another version.
    """
    return OlderSpecs(
        constants=import_module("swebench.harness.constants"),
        spec_class=import_module("swebench.harness.test_spec.test_spec").TestSpec,
        make_script=import_module(
            "swebench.harness.test_spec.create_scripts"
        ).make_eval_script_list,
        parsers=import_module("swebench.harness.log_parsers").MAP_REPO_TO_PARSER,
    )


def older_exit_code(log: str) -> int | None:
    """Return how the tests' command ended, by the log of an `OlderSpecs` script."""
    found = _EXIT_CODE.findall(log)
    return int(found[-1]) if found else None


def _names(value: Any) -> list[str]:
    return list(json.loads(value) if isinstance(value, str) else value)
