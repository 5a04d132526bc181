"""What is taken from the `swebench` package: test specs, log parsers, grading rules.

The package is an extra, and takes a second to import: it is loaded when the first instance is read.
"""

import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pytest_infranoise.errors import UsageError
from pytest_infranoise.model.outcome import Cause, Verdict
from pytest_infranoise.tasks.swebench_older import OlderSpecs, load_older, older_exit_code

INSTALL = "pip install 'swebench>=4.1'"
NOT_FOUND = (126, 127)
"""Exit codes of a shell for a command that is not there or cannot be executed."""


@dataclass(frozen=True, slots=True)
class SwebenchPackage:
    """The parts of an installed `swebench` that are used here.

    `make_test_spec` makes a test spec of a row; `parsers` are the log parsers by name;
    `apply_commands` are the ways to apply a patch, each to be followed by the patch's path;
    `constants` and `grading` are its modules of these names; `exit_code` reads from a log how the
    tests' command ended. `older` are the tables of version 4, None from version 5 on.
    """

    version: str
    make_test_spec: Any
    parsers: Mapping[str, Any]
    apply_commands: tuple[str, ...]
    constants: Any
    grading: Any
    exit_code: Callable[[str], int | None]
    older: OlderSpecs | None = None


@cache
def swebench_package() -> SwebenchPackage:
    """Return the installed package.

    Raises:
        UsageError: it is missing, or older than version 4.1.
    """
    kept = dict(os.environ)
    try:
        return _loaded()
    except ModuleNotFoundError as error:
        raise UsageError(
            f"--infra-swebench: the package {error.name} is not installed; {INSTALL}"
        ) from None
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"--infra-swebench: the installed swebench cannot be used ({error}); version 5, or 4.1 "
            f"for older data sets, is needed: {INSTALL}"
        ) from None
    finally:
        # Importing it reads a .env file into the environment, which nobody asked for.
        os.environ.clear()
        os.environ.update(kept)


def _loaded() -> SwebenchPackage:
    package = import_module("swebench")
    grading, constants, runner = (
        import_module(f"swebench.harness.{name}")
        for name in ("grading", "constants", "run_evaluation")
    )
    older = load_older() if find_spec("swebench.harness.test_spec") else None
    if older is not None:
        makes: Any = older.make_test_spec
        parsers = {parser.__name__: parser for parser in older.parsers.values()}
    else:
        makes = import_module("swebench.harness.utils").make_test_spec
        parsers = import_module("swebench.harness.log_parsers").PARSER_REGISTRY
    return SwebenchPackage(
        version=package.__version__,
        make_test_spec=makes,
        parsers=parsers,
        apply_commands=tuple(runner.GIT_APPLY_CMDS),
        constants=constants,
        grading=grading,
        exit_code=older_exit_code if older else grading.parse_test_exit_code,
        older=older,
    )


@dataclass(frozen=True, slots=True)
class SwebenchGrader:
    """Resolved when all FAIL_TO_PASS and PASS_TO_PASS tests passed, by the package's own rules.

    `spec` is the instance's test spec. The score is 1 or 0, as in the format; the shares of tests
    that passed are kept beside it.
    """

    spec: Any

    def grade(self, output: str, proof: str | None) -> Verdict:
        """Judge the log of the evaluation script; tests that never ran are no zero."""
        package = swebench_package()
        refused = f"{package.constants.APPLY_PATCH_FAIL}\n"
        if output.startswith(refused):
            reason = " ".join(output.removeprefix(refused).split())[:300]
            return _unresolved(f"the patch does not apply: {reason}")
        try:
            return self._grade(package, output, proof)
        except Exception as error:  # noqa: BLE001 - a parser that fails is no judgement
            detail = f"{self.spec.log_parser} failed: {type(error).__name__}: {error}"
            return Verdict(problem=Cause.REWARD_INVALID, detail=detail)

    def _grade(self, package: SwebenchPackage, output: str, proof: str | None) -> Verdict:
        with tempfile.TemporaryDirectory(prefix="infranoise-") as folder:
            log = Path(folder) / "test_output.txt"
            log.write_text(output, encoding="utf-8", errors="replace", newline="")
            statuses, is_valid = package.grading.get_logs_eval(self.spec, str(log))
        kinds = package.constants.EvalType
        # Version 4 takes a log without any result for one of which every test is missing.
        if is_valid and (
            statuses or not package.older or kinds(self.spec.eval_type) is kinds.FAIL_ONLY
        ):
            return self._judged(package, statuses)
        return self._without_results(package, output, proof)

    def _judged(self, package: SwebenchPackage, statuses: Mapping[str, str]) -> Verdict:
        names = (package.constants.FAIL_TO_PASS, package.constants.PASS_TO_PASS)
        wanted = dict(zip(names, (self.spec.FAIL_TO_PASS, self.spec.PASS_TO_PASS), strict=True))
        kind = package.constants.EvalType(self.spec.eval_type)
        report = package.grading.get_eval_tests_report(statuses, wanted, eval_type=kind)
        status = package.grading.get_resolution_status(report)
        passed = {name: len(report[name]["success"]) for name in names}
        rewards = {
            name.lower(): passed[name] / len(wanted[name]) if wanted[name] else 1.0
            for name in names
        }
        if status == package.constants.ResolvedStatus.FULL.value:
            return Verdict(passed=True, score=1.0, rewards={"reward": 1.0, **rewards})
        detail = ", ".join(f"{name} {passed[name]} of {len(wanted[name])}" for name in names)
        return _unresolved(detail, rewards)

    def _without_results(self, package: SwebenchPackage, output: str, proof: str | None) -> Verdict:
        """Tell tests that could not be run from tests that the patch has broken altogether."""
        start, end = package.constants.START_TEST_OUTPUT, package.constants.END_TEST_OUTPUT
        last = _last_line(output)
        for marker in (start, end):
            if marker not in output:
                detail = proof or f"the log has no {marker!r}; its last line: {last}"
                return Verdict(problem=Cause.VERIFIER_BOOTSTRAP, detail=detail)
        code = package.exit_code(output)
        if package.parsers[self.spec.log_parser](output, self.spec):
            return _unresolved(f"the tests' command ended with {code}, though no test failed")
        printed = _printed(output.split(start)[1].split(end)[0])
        if proof is not None or code in NOT_FOUND or not printed:
            detail = proof or f"the tests' command ended with {code}: {_last_line(printed)}"
            return Verdict(problem=Cause.VERIFIER_BOOTSTRAP, detail=detail)
        return _unresolved(f"no test gave a result: {_last_line(printed)}")


def _unresolved(detail: str, rewards: Mapping[str, float] | None = None) -> Verdict:
    return Verdict(score=0.0, rewards={"reward": 0.0, **(rewards or {})}, detail=detail)


def _printed(text: str) -> str:
    """Return what was printed, without the shell's trace of its commands."""
    lines = (line for line in text.splitlines() if not line.startswith("+"))
    return "\n".join(line for line in lines if line.strip(" '"))


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "nothing"
