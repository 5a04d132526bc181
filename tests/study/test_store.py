import json
import math
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from pytest_infranoise.errors import UsageError
from pytest_infranoise.model.outcome import UNMEASURED, Cause, Outcome
from pytest_infranoise.model.table import CAUSES, OUTCOMES
from pytest_infranoise.model.trial import SCHEMA_VERSION
from pytest_infranoise.study import load_study
from pytest_infranoise.study.journal import JOURNAL_NAME, encode_line
from pytest_infranoise.study.schema import upgrade
from pytest_infranoise.study.writer import MANIFEST_NAME

MANIFEST = {
    "schema_version": SCHEMA_VERSION,
    "study": "2026-12-01T10-22-31Z-5f3a",
    "parameter_sets": [{"id": "1x"}, {"id": "3x"}],
    "tasks": [{"name": "lean"}, {"name": "spike"}],
    "equal_sets": [["1x", "3x"]],
    "baseline": "1x",
    "samples": 5,
    "agent": {"name": "oracle"},
    "backend": {"engine": "docker 20.10.24"},
    "ended_at": None,
}


@pytest.fixture
def write_study(tmp_path):
    def write(records=(), tail=b"", manifest=MANIFEST):
        (tmp_path / MANIFEST_NAME).write_text(json.dumps(manifest))
        (tmp_path / JOURNAL_NAME).write_bytes(b"".join(map(encode_line, records)) + tail)
        return load_study(tmp_path)

    return write


def rows(table):
    return [
        (table.tasks[t], table.parameter_sets[p], s, OUTCOMES[o].value)
        for t, p, s, o in zip(
            table.task, table.parameter_set, table.sample, table.outcome, strict=True
        )
    ]


class TestManifest:
    def test_what_others_rely_on(self, write_study):
        manifest = write_study().manifest
        assert manifest.study == MANIFEST["study"]
        assert manifest.parameter_sets == ("1x", "3x")
        assert manifest.tasks == ("lean", "spike")
        assert manifest.equal_sets == (("1x", "3x"),)
        assert (manifest.baseline, manifest.samples) == ("1x", 5)
        assert manifest.agent["name"] == "oracle"
        assert manifest.backend["engine"] == "docker 20.10.24"
        assert not manifest.is_finished

    def test_what_is_absent_is_unknown(self, write_study):
        keys = ("schema_version", "study", "parameter_sets", "tasks")
        manifest = write_study(manifest={key: MANIFEST[key] for key in keys}).manifest
        assert manifest.baseline is None
        assert manifest.samples is None
        assert manifest.equal_sets == ()
        assert manifest.agent == manifest.backend == {}

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"study": None}, "study is missing"),
            ({"tasks": None}, "tasks is missing"),
            ({"tasks": [{}]}, "tasks is missing"),
            ({"tasks": 3}, "tasks is missing"),
            ({"parameter_sets": ["1x"]}, "parameter_sets is missing"),
            ({"equal_sets": [["1x"]]}, "equal_sets is missing"),
            ({"schema_version": None}, "schema_version is None"),
            ({"schema_version": True}, "schema_version is True"),
            ({"schema_version": 0}, "schema_version is 0"),
            ({"schema_version": 99}, "schema_version 99 was written by a newer version"),
        ],
    )
    def test_one_that_cannot_be_used_is_named(self, write_study, tmp_path, change, message):
        with pytest.raises(UsageError) as error:
            write_study(manifest={**MANIFEST, **change})
        assert str(error.value).startswith(f"{tmp_path / MANIFEST_NAME}: {message}")

    @pytest.mark.parametrize(
        ("content", "message"),
        [(b"{", "not JSON"), (b"\xff\xfe", "not JSON"), (b"[]", "not a JSON object")],
    )
    def test_a_damaged_one_is_named(self, tmp_path, content, message):
        (tmp_path / MANIFEST_NAME).write_bytes(content)
        with pytest.raises(UsageError, match=f"{MANIFEST_NAME}: {message}"):
            load_study(tmp_path)

    def test_no_study(self, tmp_path):
        for path in (tmp_path, tmp_path / "missing"):
            with pytest.raises(UsageError, match="no study here"):
                load_study(path)

    def test_a_file_of_the_study_names_it_too(self, write_study, tmp_path):
        write_study()
        for name in (MANIFEST_NAME, JOURNAL_NAME):
            assert load_study(tmp_path / name).directory == tmp_path


class TestTable:
    def test_columns(self, write_study, make_record):
        record = make_record(parameter_set="3x", sample=4, attempt=2, block=7)
        table = write_study([record]).table()
        assert table.tasks == ["lean", "spike"]
        assert table.parameter_sets == ["1x", "3x"]
        assert rows(table) == [("spike", "3x", 4, "oom")]
        assert CAUSES[table.cause[0]] is Cause.ENDED_PHASE
        assert (table.attempt[0], table.block[0], table.oom_kills[0]) == (2, 7, 1)
        assert table.throttled_share[0] == 0.25
        expected = datetime(2026, 12, 1, 10, 22, 31, 123456, UTC).timestamp()
        assert table.started[0] == expected

    @pytest.mark.parametrize("outcome", Outcome)
    def test_every_outcome(self, write_study, make_record, outcome):
        table = write_study([make_record(outcome=outcome.value)]).table()
        assert OUTCOMES[table.outcome[0]] is outcome

    @pytest.mark.parametrize("cause", sorted(set(Cause) - UNMEASURED))
    def test_every_cause(self, write_study, make_record, cause):
        table = write_study([make_record(cause=cause.value)]).table()
        assert CAUSES[table.cause[0]] is cause

    def test_unknown_values(self, write_study, make_record):
        unknown = dict.fromkeys(
            ("cause", "oom_kills", "cpu_periods", "throttled_periods", "started_at")
        )
        table = write_study([make_record(**unknown)]).table()
        assert table.cause[0] == table.oom_kills[0] == -1
        assert math.isnan(table.throttled_share[0])
        assert math.isnan(table.started[0])

    def test_no_period_is_no_share(self, write_study, make_record):
        table = write_study([make_record(cpu_periods=0, throttled_periods=0)]).table()
        assert math.isnan(table.throttled_share[0])

    @pytest.mark.parametrize(
        "started",
        ["2026-12-01T10:00:00Z", "2026-12-01T10:00:00", "2026-12-01T11:00:00+01:00"],
    )
    def test_times_are_utc(self, write_study, make_record, started):
        table = write_study([make_record(started_at=started)]).table()
        assert table.started[0] == datetime(2026, 12, 1, 10, tzinfo=UTC).timestamp()

    def test_names_that_the_manifest_lacks_follow(self, write_study, make_record):
        table = write_study([make_record("new", "9x"), make_record("lean", "1x")]).table()
        assert table.tasks == ["lean", "spike", "new"]
        assert table.parameter_sets == ["1x", "3x", "9x"]
        assert [row[:2] for row in rows(table)] == [("new", "9x"), ("lean", "1x")]

    def test_of_duplicates_the_first_counts(self, write_study, make_record):
        first, second = make_record(), make_record(outcome="passed", cause=None)
        study = write_study([first, second, make_record(attempt=2), make_record(sample=2)])
        assert rows(study.table())[0] == ("spike", "1x", 1, "oom")
        assert len(study.table()) == 3
        assert [r["outcome"] for r in study.records()] == ["oom"] * 3
        assert len(list(study.trial_records())) == 3

    def test_a_study_without_a_journal_is_empty(self, write_study, tmp_path):
        study = write_study()
        (tmp_path / JOURNAL_NAME).unlink()
        assert len(study.table()) == 0
        assert list(study.records()) == []

    def test_blank_lines_are_passed_over(self, write_study, make_record):
        assert len(write_study([make_record()], tail=b"\n \n").table()) == 1


@pytest.mark.parametrize("tail", [b'{"task": "spi', b"\x00\x00", b"12"])
def test_a_torn_last_line_is_passed_over(write_study, make_record, tail):
    study = write_study([make_record()], tail=tail)
    assert len(study.table()) == len(list(study.records())) == 1


def test_a_last_line_without_line_feed_counts(write_study, make_record):
    study = write_study([make_record()], tail=encode_line(make_record(sample=2)).rstrip())
    assert len(study.table()) == 2


BROKEN = [
    (b"{torn\n", "Expecting property name"),
    (b"[1]\n", "not a JSON object"),
    (b"{}\n", "schema_version is None"),
    (b'{"schema_version": 1}\n', "'task' is missing"),
    (b'{"schema_version": 7}\n', "schema_version 7 was written by a newer version"),
]


@pytest.mark.parametrize(("line", "message"), BROKEN)
def test_a_broken_line_is_named(write_study, make_record, line, message):
    study = write_study([make_record()], tail=line + encode_line(make_record(sample=2)))
    for read in (study.table, lambda: list(study.records()), lambda: list(study.trial_records())):
        with pytest.raises(UsageError) as error:
            read()
        assert f"{JOURNAL_NAME}:2: " in str(error.value)
        assert message in str(error.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"outcome": "won"}, "unknown outcome 'won'"),
        ({"outcome": []}, "unhashable"),
        ({"cause": "luck"}, "unknown cause 'luck'"),
        ({"sample": "1"}, "int"),
        ({"sample": -1}, "sample and attempt"),
        ({"sample": 2**40}, "sample and attempt"),
        ({"sample": 1.5}, "int"),
        ({"attempt": None}, "int"),
        ({"block": "x"}, "int"),
        ({"task": 3}, "task and parameter_set must be text"),
        ({"task": ["a"]}, "task and parameter_set must be text"),
        ({"oom_kills": 2**40}, "greater than maximum"),
        ({"started_at": "yesterday"}, "isoformat"),
        ({"started_at": 5}, "fromisoformat"),
        ({"cpu_periods": "x"}, "unsupported operand"),
    ],
)
def test_values_of_the_wrong_kind_are_named(write_study, make_record, change, message):
    study = write_study([make_record(**change)])
    with pytest.raises(UsageError) as error:
        study.table()
    assert f"{JOURNAL_NAME}:1: not a trial's record: " in str(error.value)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"worker": 3}, "worker"),
        ({"outcome": "won"}, "outcome"),
        ({"phases": [{"phase": "agent"}]}, "phases.0.ending"),
        ({"memory_limit_bytes": "512M"}, "memory_limit_bytes"),
        ({"memory_limit_bytes": True}, "memory_limit_bytes"),
    ],
)
def test_full_records_name_the_field(write_study, make_record, change, field):
    study = write_study([make_record(), make_record(**{"sample": 2, **change})])
    with pytest.raises(UsageError, match=rf"{JOURNAL_NAME}:2: {field}: "):
        list(study.trial_records())


def test_keys_of_later_additions_are_passed_over(write_study, make_record):
    study = write_study([make_record(new_key={"x": 1})])
    assert len(study.table()) == len(list(study.trial_records())) == 1


def test_a_study_can_be_read_while_it_is_written(tmp_path, make_record):
    """Every reading sees whole records, in order, and never fewer than the one before."""
    (tmp_path / MANIFEST_NAME).write_text(json.dumps(MANIFEST))
    program = (
        "import json, pathlib, sys\n"
        "from pytest_infranoise.study.journal import Journal\n"
        "record = json.loads(sys.stdin.read())\n"
        "with Journal(pathlib.Path(sys.argv[1])) as journal:\n"
        "    for sample in range(1, 301):\n"
        "        journal.append({**record, 'sample': sample, 'detail': 'x' * 9000})\n"
    )
    writer = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdin=subprocess.PIPE, text=True
    )
    try:
        writer.stdin.write(json.dumps(make_record()))
        writer.stdin.close()
        counts = []
        study = load_study(tmp_path)
        while writer.poll() is None:
            samples = list(study.table().sample)
            assert samples == list(range(1, len(samples) + 1))
            counts.append(len(samples))
    finally:
        writer.kill()
        writer.wait()
    assert writer.returncode == 0
    assert counts == sorted(counts)
    assert len(set(counts)) > 2
    assert len(study.table()) == 300


def test_planning_writing_and_reading_load_no_heavy_library(write_study, make_record, tmp_path):
    write_study([make_record()])
    program = (
        "import pathlib, sys\n"
        "import pytest_infranoise.admission, pytest_infranoise.design\n"
        "from pytest_infranoise.study import load_study\n"
        "assert len(load_study(pathlib.Path(sys.argv[1])).table()) == 1\n"
        "print(sorted({'pydantic', 'psutil', 'numpy', 'scipy', 'docker', 'pytest'} "
        "& set(sys.modules)))\n"
    )
    words = [sys.executable, "-c", program, str(tmp_path)]
    assert subprocess.run(words, check=True, capture_output=True, text=True).stdout == "[]\n"


class TestSchema:
    upgrades = {  # noqa: RUF012
        1: lambda values: {"name": values["task"]},
        2: lambda values: {**values, "score": None},
    }

    def test_older_versions_are_brought_up_step_by_step(self):
        old = {"schema_version": 1, "task": "a"}
        expected = {"schema_version": 3, "name": "a", "score": None}
        assert upgrade(old, self.upgrades, where="f:1", current=3) == expected
        assert old == {"schema_version": 1, "task": "a"}

    def test_a_version_without_a_reader_is_named(self):
        with pytest.raises(UsageError, match="f:1: schema_version 1 can no longer be read"):
            upgrade({"schema_version": 1}, {}, where="f:1", current=2)

    def test_every_older_version_has_a_reader(self):
        from pytest_infranoise.study.schema import MANIFEST_UPGRADES, RECORD_UPGRADES

        expected = set(range(1, SCHEMA_VERSION))
        assert set(RECORD_UPGRADES) == set(MANIFEST_UPGRADES) == expected
