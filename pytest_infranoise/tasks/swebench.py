"""SWE-bench: instances of a data set as tasks, and predictions for them.

An instance names its image, the script that runs its tests and the parser of their log. The agent
phase works in `/testbed`; verification runs that script and judges its log by the `swebench`
package.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_infranoise.errors import UsageError
from pytest_infranoise.model.task import ImageSource, Task
from pytest_infranoise.tasks.place import display_path
from pytest_infranoise.tasks.resources import ResourceDefaults
from pytest_infranoise.tasks.rows import read_rows
from pytest_infranoise.tasks.swebench_older import NEEDS, OlderSpecs
from pytest_infranoise.tasks.swebench_package import SwebenchGrader, swebench_package
from pytest_infranoise.tasks.swebench_scripts import TESTBED, apply_script, verification_files
from pytest_infranoise.tasks.undeclared import undeclared_spec

TEST_SECONDS = 1800.0
"""The time that the format's own harness gives an evaluation by default."""

IMAGE = "swebench/sweb.eval.x86_64.{docker_id}:latest"
"""How published images are called; `docker_id` is the instance's id as Docker Hub accepts it."""

_NAME = re.compile(r"[A-Za-z0-9][\w.+-]*", re.ASCII)
_SHOWN_CHARACTERS = 120
_TEXTS = ("instance_id", "repo", "version", "base_commit", "problem_statement")
_EVALUATION = ("eval_script", "log_parser", "eval_type")
_TEST_LISTS = ("FAIL_TO_PASS", "PASS_TO_PASS")


@dataclass(frozen=True, slots=True)
class Predictions:
    """One model's patches by instance id; `model` is how the file calls it."""

    model: str
    patches: Mapping[str, str]
    digest: str


def read_instances(
    path: Path,
    *,
    defaults: ResourceDefaults,
    image: str | None = None,
    agent_timeout_seconds: float | None = None,
) -> tuple[Task, ...]:
    """Return the instances of a data set's file as tasks, named by their ids.

    Args:
        path: a `.json`, `.jsonl` or `.parquet` file.
        defaults: what every instance gets, since the format has no resources.
        image: a template with `{instance_id}` (in lower case) or `{docker_id}`, in place of the
            image that a row names or that is published.
        agent_timeout_seconds: the agent's time; None for no deadline.

    Raises:
        UsageError: one line that names the file, the instance, the key and the fix.
    """
    where = display_path(path)
    rows = read_rows(path, where=where)
    spec, notes = undeclared_spec(defaults, where=where, form="SWE-bench")
    package = swebench_package()
    tasks: dict[str, Task] = {}
    for number, row in enumerate(rows, start=1):
        place = f"{where}: {_label(row, number)}"
        _check(row, place)
        name = row["instance_id"]
        if name in tasks:
            raise UsageError(f"{place}: stands there twice; keep one")
        reference = image_of(row, image, place)
        test_spec = package.make_test_spec({**row, "image": reference})
        tasks[name] = Task(
            name=name,
            digest=_digest(row),
            spec=spec,
            image=ImageSource(docker_image=reference),
            directory=path,
            instruction=row["problem_statement"],
            agent_timeout_seconds=agent_timeout_seconds,
            verifier_timeout_seconds=TEST_SECONDS,
            workdir=TESTBED,
            notes=(*notes, f"graded by swebench {package.version}"),
            solution_files=patch_files(row["patch"]),
            test_files=verification_files(
                test_spec.eval_script, row["base_commit"], package.constants.APPLY_PATCH_FAIL
            ),
            grader=SwebenchGrader(test_spec),
        )
    return tuple(tasks.values())


def patch_files(patch: str) -> dict[str, str]:
    """Return a patch and the script `solve.sh` that applies it, as texts by file name."""
    script = apply_script(swebench_package().apply_commands)
    return {"patch.diff": patch if patch.strip() else "", "solve.sh": script}


def image_of(row: Mapping[str, Any], template: str | None, place: str) -> str:
    """Return an instance's image: by the user's template, as the row says, or as published.

    Raises:
        UsageError: the template has another field, or the row's image is not text.
    """
    if template is None:
        named = row.get("image")
        if named is not None:
            return _text(row, "image", place)
    instance_id = str(row["instance_id"]).lower()
    docker_id = instance_id.replace("__", "_1776_")
    try:
        return (template or IMAGE).format(instance_id=instance_id, docker_id=docker_id)
    except (KeyError, IndexError, ValueError, AttributeError):
        raise UsageError(
            f"--infra-swebench-image={template}: the only fields are {{instance_id}} and "
            "{docker_id}; write for example local/{instance_id}:latest"
        ) from None


def read_predictions(path: Path) -> Predictions:
    """Read a model's predictions, a `.json` or `.jsonl` file; a patch of null is an empty one.

    Raises:
        UsageError: one line that names the file, the instance, the key and the fix.
    """
    where = display_path(path)
    patches: dict[str, str] = {}
    models: dict[str, None] = {}
    for number, row in enumerate(read_rows(path, where=where), start=1):
        name = _text(row, "instance_id", f"{where}: #{number}")
        place = f"{where}: {_label(row, number)}"
        if name in patches:
            raise UsageError(f"{place}: has two predictions; keep one, or study each file")
        if "model_patch" not in row:
            raise UsageError(f"{place}: model_patch: missing")
        patches[name] = "" if row["model_patch"] is None else _text(row, "model_patch", place, "")
        models[_text({"m": path.stem, **row}, "model_name_or_path", place, path.stem)] = None
    if len(models) > 1:
        first, second, *_ = models
        raise UsageError(
            f"{where}: model_name_or_path: names both {first!r} and {second!r}; a study measures "
            "one, so give each a file"
        )
    digest = hashlib.sha256(json.dumps(patches, sort_keys=True).encode()).hexdigest()
    return Predictions(next(iter(models)), patches, digest)


def _label(row: Mapping[str, Any], number: int) -> str:
    """Return how messages name a row: by its id where that fits a line, else by its number."""
    name = row.get("instance_id")
    fits = isinstance(name, str) and name.isprintable() and 0 < len(name) <= _SHOWN_CHARACTERS
    return str(name) if fits else f"#{number}"


def _check(row: Mapping[str, Any], place: str) -> None:
    """Refuse a row of which no task can be made, by the first key that is wrong."""
    for key in _TEXTS:
        _text(row, key, place)
    if not _NAME.fullmatch(row["instance_id"]):
        raise UsageError(f"{place}: instance_id: not a name of letters, digits and . _ + -")
    _text(row, "patch", place, "")
    older = swebench_package().older
    if older is None:
        _check_evaluation(row, place)
    else:
        _check_older(row, older, place)
    for key in _TEST_LISTS:
        _check_tests(row, key, place)
    if row.get("image_assets") not in (None, "", "{}", {}):
        raise UsageError(
            f"{place}: image_assets: files that a patch cannot carry are not supported; leave this "
            "instance out"
        )


def _check_evaluation(row: Mapping[str, Any], place: str) -> None:
    """Refuse a row that does not say how it is tested, or says what the package does not know."""
    package = swebench_package()
    missing = [key for key in _EVALUATION if row.get(key) in (None, "")]
    if missing:
        raise UsageError(
            f"{place}: {missing[0]}: missing, as in older revisions of the data set; get its "
            "current one, or the package that has their test commands: pip install 'swebench<5'"
        )
    for key in _EVALUATION:
        _text(row, key, place)
    if row["log_parser"] not in package.parsers:
        raise UsageError(
            f"{place}: log_parser: swebench {package.version} has no {row['log_parser']!r}"
        )
    kinds = [kind.value for kind in package.constants.EvalType]
    if row["eval_type"] not in kinds:
        raise UsageError(f"{place}: eval_type: must be one of {', '.join(kinds)}")


def _check_older(row: Mapping[str, Any], older: OlderSpecs, place: str) -> None:
    """Refuse a row that version 4 of the package has no test commands for."""
    version = swebench_package().version
    if row.get("eval_script") not in (None, ""):
        raise UsageError(
            f"{place}: eval_script: a row of a newer data set, but swebench {version} is "
            "installed; version 5 runs it: pip install -U swebench"
        )
    for key in NEEDS:
        _text(row, key, place)
    if not older.knows(row):
        raise UsageError(
            f"{place}: swebench {version} has no test commands for version {row['version']} of "
            f"{row['repo']}; leave this instance out"
        )


def _check_tests(row: Mapping[str, Any], key: str, place: str) -> None:
    value = row.get(key)
    try:
        names = json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise UsageError(f"{place}: {key}: must be a list of tests' names, or one as JSON text")


def _text(row: Mapping[str, Any], key: str, place: str, default: str | None = None) -> str:
    """Return a text of a row; one that is missing or empty is `default`, None to refuse it."""
    value = row.get(key)
    if default is not None and value in (None, ""):
        return default
    if not isinstance(value, str) or not value:
        raise UsageError(f"{place}: {key}: must be text" + ("" if value else ", and is missing"))
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise UsageError(f"{place}: {key}: holds characters that no file can hold")
    return value


def _digest(row: Mapping[str, Any]) -> str:
    text = json.dumps(row, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()
