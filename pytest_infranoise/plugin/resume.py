"""`--infra-resume`: a study that was stopped, killed or is to have more samples goes on.

The study keeps its id, its seed, its order and its options. Nothing that has a record runs again;
blocks and positions are those of a run that was never interrupted.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pytest_infranoise.errors import UsageError
from pytest_infranoise.plugin.handover import IDENTITY, Handover, identity_of, new_identity
from pytest_infranoise.plugin.options import OPTIONS, SPECS, is_sweep, option_value
from pytest_infranoise.study.journal import JOURNAL_NAME
from pytest_infranoise.study.looks import note_look
from pytest_infranoise.study.progress import NextAttempts, read_progress
from pytest_infranoise.study.redact import Redactor, redact_arguments
from pytest_infranoise.study.sameness import Change, changes
from pytest_infranoise.study.sessions import continued
from pytest_infranoise.study.store import Study, load_study
from pytest_infranoise.study.writer import MANIFEST_NAME, StudyWriter, resume_study

CHECK, ANYWAY = "check", "anyway"

_RESUMPTION = pytest.StashKey["Resumption"]()
_SHOWN_CHANGES = 10
_NOT_KEPT = frozenset(
    {"study", "resume", "retry-infra-errors", "dry-run", "seed", "note", "gate", "max-cost"}
)
"""Options that belong to one session, or that the manifest holds by themselves."""
_SAMPLES = ("samples", "until-decided", "max-samples")
_TOGETHER = (
    ("multipliers", "memory-multipliers", "cpu-multipliers", "timeout-multipliers"),
    _SAMPLES,
    ("enforcement", "oom-policy"),
)
"""Options that contradict one another: giving one of them replaces them all."""


@dataclass(frozen=True, slots=True)
class Resumption:
    """A study that goes on in this session; `mode` is `check` or `anyway`."""

    study: Study
    mode: str
    retry_infra_errors: bool

    def check(self, now: Mapping[str, Any]) -> list[Change]:
        """Return what has changed since the study began, where the user accepts it.

        `now` is the manifest that a new study would get.

        Raises:
            UsageError: something changed and the user did not accept it, or nobody may.
        """
        before = self.study.manifest.data
        found = [*changes(before, _with_unnamed(now, before)), *_design_changes(before, now)]
        refused = found if self.mode == CHECK else [item for item in found if item.is_fixed]
        if refused:
            lines = [item.words("before", "now") for item in refused[:_SHOWN_CHANGES]]
            if len(refused) > len(lines):
                lines.append(f"{len(refused) - len(lines)} more")
            fix = "undo that or use another --infra-study"
            if not any(item.is_fixed for item in refused):
                fix += "; --infra-resume=anyway goes on and records it"
            raise UsageError(
                f"--infra-resume: {self.study.directory} was made otherwise ({'; '.join(lines)}); "
                + fix
            )
        return found

    def manifest(self, now: Mapping[str, Any]) -> dict[str, Any]:
        """Return the manifest that the study has from now on.

        Raises:
            UsageError: as `check` does.
        """
        accepted = [item.words("before", "now") for item in self.check(now)]
        return continued(self.study.manifest.data, now, accepted)

    def open(self, manifest: Mapping[str, Any], redactor: Redactor) -> StudyWriter:
        """Take the journal's lock, repair its end and write the manifest.

        A study that had come to its end was looked at, and is made longer after that look.

        Raises:
            UsageError: another session writes this study, or it cannot be written.
        """
        writer = resume_study(self.study.directory, manifest, redactor=redactor)
        writer.start()
        if manifest["samples"] != self.study.manifest.samples:
            note_look(self.study.directory)
        return writer

    def records(self) -> list[dict[str, Any]]:
        """Return what is on record, without what the phases printed.

        Raises:
            UsageError: the journal cannot be read.
        """
        return [{**record, "phases": []} for record in self.study.records()]

    def progress(self) -> NextAttempts:
        """Return which trials are on record."""
        return read_progress(self.study.records(), retry_infra_errors=self.retry_infra_errors)


def resumption_of(config: pytest.Config) -> Resumption | None:
    """Return the study that goes on in this session, None for a new one."""
    return config.stash.get(_RESUMPTION, None)


def adopt(config: pytest.Config) -> None:
    """Make a study that exists the study of this session: its id, its seed, its options.

    A worker takes them from the controller.

    Raises:
        pytest.UsageError: there is no such study, or it cannot go on.
    """
    if not hasattr(config, "workerinput"):
        try:
            _adopt(config)
        except UsageError as error:
            raise pytest.UsageError(str(error)) from error
    for dest, value in identity_of(config).options.items():
        setattr(config.option, dest, value)


def _adopt(config: pytest.Config) -> None:
    mode = option_value(config, "resume")
    if mode not in SPECS["resume"].choices:
        raise UsageError(
            f"--infra-resume: {mode!r} is not one of {', '.join(SPECS['resume'].choices)}; write "
            "--infra-resume behind what is to be collected"
        )
    named = option_value(config, "study")
    if not named:
        raise UsageError("--infra-resume: name the study's folder with --infra-study=DIR")
    folder: Path = config.invocation_params.dir / named
    if not (folder / MANIFEST_NAME).exists():
        _require_new(config, folder)
        return
    study = load_study(folder)
    seed = study.manifest.data.get("seed")
    if not isinstance(seed, int):
        raise UsageError(f"--infra-resume: {folder} holds imported counts; there is nothing to run")
    flags = new_identity().flags  # what an earlier session left there is not for this one
    options = _kept_options(config, study.manifest.data)
    config.stash[IDENTITY] = Handover(
        study=study.manifest.study, seed=seed, flags=flags, options=options
    )
    config.stash[_RESUMPTION] = Resumption(
        study, mode, bool(option_value(config, "retry-infra-errors"))
    )


def _require_new(config: pytest.Config, folder: Path) -> None:
    """Begin a study whose last session died before its first trial; anything else is refused."""
    journal = folder / JOURNAL_NAME
    if journal.exists() and journal.stat().st_size:
        raise UsageError(f"--infra-resume: {folder} has records but no {MANIFEST_NAME}")
    if not is_sweep(config, without=("resume",)):
        raise UsageError(
            f"--infra-resume: there is no study in {folder}; to begin one there, name its "
            "parameter sets, as in --infra-multipliers=1,3"
        )


def given_options(config: pytest.Config) -> dict[str, Any]:
    """Return the options that the user gave, by name, as the manifest keeps them.

    One that seems to hold a secret is left out: it must be given again.
    """
    given = {}
    for spec in OPTIONS:
        value = getattr(config.option, spec.dest, None) or config.getini(spec.dest)
        if spec.name in _NOT_KEPT or value in (None, "", [], False):
            continue
        shown = [str(item) for item in (value if isinstance(value, list) else [value])]
        shown = [f"{spec.flag}={item}" for item in shown]
        if redact_arguments(shown) == shown:
            given[spec.name] = value
    return given


def _kept_options(config: pytest.Config, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the study's own options of which this session says nothing."""
    kept = {}
    replaced = {
        name for group in _TOGETHER if any(_is_given(config, name) for name in group)
        for name in group
    }  # fmt: skip
    for name, value in (manifest.get("options") or {}).items():
        if name not in SPECS or name in _NOT_KEPT or name in replaced or _is_given(config, name):
            continue
        if "<redacted " not in str(value):
            kept[SPECS[name].dest] = value
    if not _is_given(config, "seed"):
        kept[SPECS["seed"].dest] = str(manifest["seed"])
    if not any(_is_given(config, name) for name in _SAMPLES):
        kept |= _kept_samples(manifest)
    return kept


def _kept_samples(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the samples of a study that an earlier session made longer than its first."""
    samples = manifest.get("samples")
    is_longer = bool(manifest.get("extended_from")) and isinstance(samples, int)
    return {SPECS["samples"].dest: str(samples)} if is_longer else {}


def _is_given(config: pytest.Config, name: str) -> bool:
    """Whether the command line says it: what an ini file says, the study has heard before."""
    return getattr(config.option, SPECS[name].dest, None) is not None


def _with_unnamed(now: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """Return a manifest with the study's tasks that are there, but not named by this session.

    A narrower path and `--infra-exclude` select among the tasks, as `-k` does.
    """
    names, excluded = {task["name"] for task in now["tasks"]}, now.get("excluded_tasks") or ()
    folders = {task.get("directory") for task in now["tasks"]}
    unnamed = [
        task
        for task in before["tasks"]
        if task["name"] not in names
        and (task["name"] in excluded or _is_elsewhere(task.get("directory"), folders))
    ]
    return {**now, "tasks": [*now["tasks"], *unnamed]}


def _is_elsewhere(directory: str | None, folders: Collection[str | None]) -> bool:
    return directory is not None and directory not in folders and Path(directory).exists()


def _design_changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[Change]:
    """Return what a study may be in any way, but not in two ways."""
    found = []
    if before.get("shard") != now.get("shard"):
        first, second = (_shard_words(item.get("shard")) for item in (before, now))
        found.append(Change("shard", first, second, is_fixed=True))
    samples = before.get("samples")
    if isinstance(samples, int) and now["samples"] < samples:
        found.append(Change("samples", str(samples), str(now["samples"]), is_fixed=True))
    return found


def _shard_words(shard: Mapping[str, int] | None) -> str:
    return "none" if shard is None else f"{shard['number']}/{shard['of']}"
