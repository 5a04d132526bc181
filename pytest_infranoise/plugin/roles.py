"""Who does what: the process that runs trials, and the process that keeps the study.

Without xdist one process is both. With it, workers run trials and the controller keeps the study.
Nothing here imports the rest of the package before there is a trial; hooks that every test passes
through cost one attribute look-up.
"""

import re
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pytest

from pytest_infranoise.plugin.options import check_flags, is_sweep, option_value

if TYPE_CHECKING:
    from pytest_infranoise.plugin.keeper import StudyKeeper


def register(config: pytest.Config) -> None:
    """Register the hooks of this process's role."""
    check_flags(config)
    if option_value(config, "resume"):
        from pytest_infranoise.plugin.resume import adopt

        adopt(config)
    sweep = is_sweep(config)
    if option_value(config, "dry-run"):
        _stay_alone(config)
    is_worker = hasattr(config, "workerinput")
    if sweep:
        if getattr(config.option, "maxschedchunk", 0) is None:
            config.option.maxschedchunk = 1  # larger chunks would tear the blocks apart
        from pytest_infranoise.plugin.items import TaskCollection

        if option_value(config, "swebench"):
            from pytest_infranoise.plugin.instances import add_data_set

            add_data_set(config)
        config.pluginmanager.register(TaskCollection(config), "infranoise-tasks")
    if not _is_controller(config):
        config.pluginmanager.register(TrialRunner(config, is_worker), "infranoise-runner")
    if not is_worker:
        keeper = KeeperHooks(config, sweep)
        config.pluginmanager.register(keeper, "infranoise-keeper")
        if config.pluginmanager.hasplugin("xdist"):
            from pytest_infranoise.plugin.distribution import DistributionHooks

            config.pluginmanager.register(DistributionHooks(keeper), "infranoise-distribution")


def _is_controller(config: pytest.Config) -> bool:
    """Whether xdist will run the tests in other processes."""
    distributes = getattr(config.option, "dist", "no") != "no"
    return distributes and not config.option.collectonly and not hasattr(config, "workerinput")


def _stay_alone(config: pytest.Config) -> None:
    """A dry run needs no workers."""
    if hasattr(config.option, "dist"):
        config.option.dist = "no"
        config.option.tx = []


class TrialRunner:
    """Hooks of a process that runs trials."""

    def __init__(self, config: pytest.Config, is_worker: bool) -> None:
        self._is_worker = is_worker
        self._watch: Any = None
        self._has_trials = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Note on a marked test's item which trial it is."""
        if "infra_sandbox" in getattr(item, "fixturenames", ()):
            from pytest_infranoise.plugin.marked import note_trial

            note_trial(item)
        elif any(mark.name == "infra" for mark in item.own_markers):
            from pytest_infranoise.plugin.marked import warn_of_mark

            warn_of_mark(item)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Bring the selected trials into the study's order, behind all other tests."""
        if not any(_may_be_trial(item) for item in items):
            return
        from pytest_infranoise.plugin.ordering import order_trials

        self._has_trials = order_trials(config, items)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Make ready what every trial of this process needs."""
        if not self._has_trials or session.config.option.collectonly:
            return
        from pytest_infranoise.plugin.ordering import make_ready

        self._watch = make_ready(session, self._is_worker)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Skip trials that must not start any more."""
        if self._has_trials:
            from pytest_infranoise.plugin.ordering import prepare_trial

            prepare_trial(item)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Make the body of a marked test its agent phase."""
        if not self._has_trials:
            return (yield)
        from pytest_infranoise.plugin.marked import run_body

        return (yield from run_body(item))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Put the trial's record on its report, after whoever else has had a say in it."""
        report = yield
        if self._has_trials:
            from pytest_infranoise.plugin.ordering import attach_record

            attach_record(item, call, report)
            if self._is_worker:
                from pytest_infranoise.plugin.plain import make_sendable

                make_sendable(item, report)
        return report

    def pytest_unconfigure(self, config: pytest.Config) -> None:
        """Release the engine."""
        if self._watch is not None:
            self._watch.finish()
        if self._has_trials:
            from pytest_infranoise.plugin.runtime import get_runtime

            get_runtime(config).close()


def _may_be_trial(item: pytest.Item) -> bool:
    return hasattr(item, "parameter_set") or "infra_sandbox" in getattr(item, "fixturenames", ())


class KeeperHooks:
    """Hooks of the process that the user started: validates, writes, stops, sums up."""

    def __init__(self, config: pytest.Config, sweep: bool) -> None:
        self._config = config
        self._keeper: StudyKeeper | None = None
        self._is_sweep = sweep
        self._lacks_study = False
        if sweep:
            _ = self.keeper
        elif has_gate(config):
            _refuse_early(config)

    @property
    def keeper(self) -> "StudyKeeper":
        """The keeper of the study, made when it is first needed."""
        if self._keeper is None:
            from pytest_infranoise.errors import UsageError
            from pytest_infranoise.plugin.keeper import StudyKeeper

            try:
                self._keeper = StudyKeeper(self._config)
            except UsageError as error:
                raise pytest.UsageError(str(error)) from error
        return self._keeper

    @property
    def is_active(self) -> bool:
        """Whether there is a study in this session."""
        return self._keeper is not None

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Validate everything and prepare images before anything runs."""
        if self._keeper is not None:
            self._keeper.begin()

    def pytest_report_header(self, config: pytest.Config) -> list[str]:
        """Say which study this is."""
        return [] if self._keeper is None else self._keeper.header()

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Learn how many trials were selected (without xdist)."""
        selected = [item for item in session.items if _may_be_trial(item)]
        if selected and not self._config.option.collectonly:
            self.keeper.expect_items(selected, session)

    def expect_ids(self, ids: list[str]) -> None:
        """Learn from a worker's collection how many trials were selected."""
        from pytest_infranoise.plugin.handover import identity_of
        from pytest_infranoise.plugin.stopping import StopFlags

        order = StopFlags(identity_of(self._config).flags).order()
        if order is not None:
            self.keeper.learn_order(order)
        if order is not None or any(_TRIAL_ID.search(item) for item in ids):
            self.keeper.expect_ids(ids)

    def handover_text(self) -> str:
        """Return what every worker is told."""
        if self._keeper is not None:
            return self._keeper.hand_over().to_text()
        from pytest_infranoise.plugin.handover import identity_of

        return identity_of(self._config).to_text()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Show the plan instead of running it, if that is what was asked for."""
        if self._keeper is None or not self._keeper.runtime.settings.dry_run:
            return None
        return self._keeper.show_plan(session)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take over the record that a report carries."""
        if self._keeper is not None or any(map(report.__dict__.__contains__, _OURS)):
            self.keeper.take(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note errors of collection, which no exit policy may hide."""
        if self._keeper is not None and report.failed:
            self._keeper.recorder.other_failures += 1

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(
        self, report: Any
    ) -> tuple[str, str, str | tuple[str, dict[str, bool]]] | None:
        """Give `oom`, `timeout`, `infra` and others a category in pytest's tally."""
        for attribute, status in _SPECIAL.items():
            if getattr(report, attribute, False):
                return status
        record = getattr(report, "infranoise", None)
        if record is None or hasattr(report, "infranoise_error"):
            return None
        if report.outcome not in ("passed", "failed"):
            return None  # skipped, expected to fail, to be run again: pytest's own words
        if record["cause"] in ("model_api", "engine_away"):
            return _NOT_MEASURED
        if record["outcome"] == "failed" and self._treats_trials_as_data():
            return _NOT_PASSED
        return _STATUS.get(record["outcome"])

    def _treats_trials_as_data(self) -> bool:
        """Whether a trial that failed is a result, not a failure that pytest explains at length."""
        return self._keeper is not None and self._keeper.runtime.settings.exit == "study"

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, object, object]:
        """Decide the exit code, let everybody finish, then write the end of the study."""
        if self._keeper is not None:
            self._keeper.decide_exit(session)
        elif has_gate(self._config) and session.exitstatus == pytest.ExitCode.OK:
            self._lacks_study = not self._config.option.collectonly
            if self._lacks_study:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED
        try:
            return (yield)
        finally:
            if self._keeper is not None:
                self._keeper.sweep()

    @pytest.hookimpl(tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: Any, exitstatus: int) -> None:
        """Print what the study found, or why there is none where there might have been one."""
        if self._keeper is not None:
            from pytest_infranoise.plugin.failures import print_failures

            print_failures(terminalreporter, as_data=self._treats_trials_as_data())
            self._keeper.summarise(terminalreporter)
        if hint := self._hint(terminalreporter, exitstatus):
            terminalreporter.write_line(hint, yellow=True)
        elif self._lacks_study:
            words = "exit code 1: --infra-gate was given, but no trial was selected to judge it by"
            terminalreporter.write_line(f"infranoise: {words}", red=True)

    def _hint(self, terminal: Any, exit_status: int) -> str | None:
        """Return what to say where tasks were meant to run and none did, None where all is well."""
        if self._is_sweep:
            assert self._keeper is not None
            is_empty = exit_status == pytest.ExitCode.NO_TESTS_COLLECTED
            if not is_empty or self._keeper.runtime.tasks or terminal.stats.get("deselected"):
                return None
            from pytest_infranoise.plugin.hints import no_task_hint

            return no_task_hint(self._config)
        if self._keeper is None and exit_status not in _NOTHING_RAN:
            return None
        from pytest_infranoise.plugin.hints import uncollected_hint

        return uncollected_hint(self._config)

    def pytest_unconfigure(self, config: pytest.Config) -> None:
        """Give signals and engine back."""
        if self._keeper is not None:
            self._keeper.end()


def has_gate(config: pytest.Config) -> bool:
    """Whether this very session was given a gate; an ini file's is for its studies alone."""
    return bool(config.option.infra_gate)


def _refuse_early(config: pytest.Config) -> None:
    """Refuse options that cannot be used before the tests are collected that may be trials."""
    from pytest_infranoise.errors import UsageError
    from pytest_infranoise.plugin.settings import read_settings

    try:
        read_settings(config)
    except UsageError as error:
        raise pytest.UsageError(str(error)) from error


_NOTHING_RAN = (pytest.ExitCode.NO_TESTS_COLLECTED, pytest.ExitCode.USAGE_ERROR)

_TRIAL_ID = re.compile(
    r"::(?:mem|cpu|time)?(?:[\d.]+x|uncapped)[\w.-]*-s\d+$"
    r"|\[(?:.*-)?(?:mem|cpu|time)?(?:[\d.]+x|uncapped)(?:-aa)?-s\d+(?:-.*)?\]$"
)
"""What the ids of trials look like; the controller of xdist sees nothing else of the items."""

_OURS = ("infranoise", "infranoise_wait")
"""What marks a report that only a study's keeper understands."""

_NOT_PASSED = ("not passed", "F", ("NOT PASSED", {"yellow": True}))

_STATUS: dict[str, tuple[str, str, tuple[str, dict[str, bool]]]] = {
    "oom": ("oom", "O", ("OOM", {"red": True})),
    "timeout": ("timeout", "T", ("TIMEOUT", {"red": True})),
    "infra_error": ("infra", "I", ("INFRA", {"yellow": True})),
}
_NOT_MEASURED = ("not measured", "A", ("NOT MEASURED", {"yellow": True}))
"""The model's provider refused to work or the engine was away; no further attempt is made."""

_SPECIAL: dict[str, tuple[str, str, str | tuple[str, dict[str, bool]]]] = {
    "infranoise_attempt": ("", "", ""),  # the trial's own reports come later
    "infranoise_wait": ("", "", ""),
    "infranoise_unneeded": ("not needed", "n", ("NOT NEEDED", {"light": True})),
    "infranoise_unrun": ("not run", "n", ("NOT RUN", {"yellow": True})),
}
