import errno
import json
import os
import resource
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from required import missing_engine

from pytest_infranoise.errors import UsageError
from pytest_infranoise.study.journal import JOURNAL_NAME, Journal, JournalError, encode_line

WHOLE = b'{"a":1}\n{"b":2}\n'


def lines_of(journal):
    return [json.loads(line) for line in journal.path.read_bytes().splitlines()]


def test_records_are_on_disk_when_append_returns(tmp_path):
    with Journal(tmp_path) as journal:
        journal.append({"task": "a"})
        assert lines_of(journal) == [{"task": "a"}]
        journal.append({"task": "b"})
    assert (tmp_path / JOURNAL_NAME).read_bytes() == b'{"task":"a"}\n{"task":"b"}\n'


def test_a_record_survives_a_writer_that_is_killed(tmp_path):
    program = (
        "import os, sys, pathlib\n"
        "from pytest_infranoise.study.journal import Journal\n"
        "journal = Journal(pathlib.Path(sys.argv[1]))\n"
        "journal.append({'task': 'a'})\n"
        "os.kill(os.getpid(), 9)\n"
    )
    assert subprocess.run([sys.executable, "-c", program, str(tmp_path)]).returncode == -9
    with Journal(tmp_path) as journal:
        assert lines_of(journal) == [{"task": "a"}]


@pytest.mark.parametrize(
    ("content", "kept", "torn"),
    [
        (b"", b"", None),
        (WHOLE, WHOLE, None),
        (WHOLE + b'{"c":', WHOLE, b'{"c":'),
        (b'{"c":', b"", b'{"c":'),
        (WHOLE + b'{"c":3}', WHOLE + b'{"c":3}\n', None),
        (WHOLE + b"12", WHOLE, b"12"),
        (WHOLE + b"\x00" * 5000, WHOLE, b"\x00" * 5000),
        (WHOLE + b'{"c":"' + b"x" * 200_000, WHOLE, b'{"c":"' + b"x" * 200_000),
    ],
    ids=["empty", "whole", "torn", "all torn", "no line feed", "number", "zeros", "longer"],
)
def test_a_torn_last_line_is_moved_aside(tmp_path, content, kept, torn):
    path = tmp_path / JOURNAL_NAME
    path.write_bytes(content)
    with Journal(tmp_path) as journal:
        assert path.read_bytes() == kept
        assert (journal.torn and journal.torn.read_bytes()) == torn
        journal.append({"d": 4})
    assert path.read_bytes() == kept + b'{"d":4}\n'


def test_torn_lines_never_overwrite_each_other(tmp_path):
    for number in (1, 2):
        (tmp_path / JOURNAL_NAME).write_bytes(b"{torn %d" % number)
        Journal(tmp_path).close()
    assert [(tmp_path / f"{JOURNAL_NAME}.torn-{n}").read_bytes() for n in (1, 2)] == [
        b"{torn 1",
        b"{torn 2",
    ]


@settings(max_examples=60, deadline=None)
@given(cut=st.integers(0, 400), count=st.integers(1, 5))
def test_a_cut_anywhere_loses_the_last_record_only(tmp_path_factory, cut, count):
    folder = tmp_path_factory.mktemp("cut")
    records = [{"n": n, "text": "x{}\n\u2028" * n} for n in range(count)]
    content = b"".join(map(encode_line, records))[: max(1, cut)]
    (folder / JOURNAL_NAME).write_bytes(content)
    whole = content.count(b"\n")
    with Journal(folder) as journal:
        kept = lines_of(journal)
    assert kept[:whole] == records[:whole]
    assert len(kept) - whole in (0, 1)
    assert kept == records[: len(kept)]


def test_two_writers_are_refused(tmp_path):
    with Journal(tmp_path), pytest.raises(UsageError, match="another process is writing"):
        Journal(tmp_path)
    Journal(tmp_path).close()


def test_a_missing_folder_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match="cannot be written: No such file"):
        Journal(tmp_path / "missing")


HOSTILE = "<script>\x1b[31m\u2028\u2029\x00\ud800 ünï\r\n\U0001f4a5"


def test_hostile_text_stays_one_line_and_comes_back(tmp_path):
    with Journal(tmp_path) as journal:
        journal.append({"output": HOSTILE})
        assert lines_of(journal) == [{"output": HOSTILE}]
        assert len(journal.path.read_bytes().splitlines()) == 1


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_what_json_cannot_say_is_unknown(value):
    record = {"score": value, "phases": [{"wall_seconds": value}], "notes": (1.5, value)}
    assert json.loads(encode_line(record)) == {
        "score": None,
        "phases": [{"wall_seconds": None}],
        "notes": [1.5, None],
    }


def test_what_is_no_builtin_is_refused_and_does_not_block_the_journal(tmp_path):
    with Journal(tmp_path) as journal:
        with pytest.raises(TypeError):
            journal.append({"path": tmp_path})
        journal.append({"a": 1})
        assert lines_of(journal) == [{"a": 1}]


class TestFullDisk:
    @pytest.fixture
    def small(self, tmp_path):
        folder = tmp_path / "small"
        folder.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "infranoise-test", str(folder)]
        done = subprocess.run(mount, capture_output=True, text=True)
        if done.returncode:
            missing_engine("local", f"no small file system here: {done.stderr.strip()}")
        yield folder
        subprocess.run(["umount", str(folder)], check=True)

    def test_records_wait_in_memory_until_there_is_room(self, small):
        ballast = small / "ballast"
        ballast.write_bytes(b"x" * 50_000)
        with Journal(small) as journal:
            journal.append({"n": 0})
            big = {"n": 1, "output": "x" * 20_000}
            with pytest.raises(JournalError, match="No space left on device; 1 record"):
                journal.append(big)
            with pytest.raises(JournalError, match="2 record"):
                journal.append({"n": 2})
            assert lines_of(journal) == [{"n": 0}]  # no half line stands there meanwhile
            assert journal.unwritten == [big, {"n": 2}]
            ballast.unlink()
            journal.retry()
            assert journal.unwritten == []
            journal.append({"n": 3})
            assert lines_of(journal) == [{"n": 0}, big, {"n": 2}, {"n": 3}]

    def test_a_quota_that_cuts_a_line_leaves_no_half_line(self, tmp_path):
        """The kernel writes a part of the line first and refuses the rest then."""
        with Journal(tmp_path) as journal:
            journal.append({"n": 0})
            limits = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
            try:
                with pytest.raises(JournalError, match="File too large; 1 record"):
                    journal.append({"n": 1, "output": "x" * 500})
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            assert journal.path.read_bytes() == b'{"n":0}\n'
            journal.retry()
            assert [line["n"] for line in lines_of(journal)] == [0, 1]

    def test_a_disk_that_fails_at_the_flush_writes_no_line_twice(self, tmp_path, monkeypatch):
        with Journal(tmp_path) as journal:

            def fail(file):
                raise OSError(errno.EIO, "Input/output error")

            with monkeypatch.context() as patch:
                patch.setattr(os, "fdatasync", fail)
                with pytest.raises(JournalError, match="Input/output error"):
                    journal.append({"n": 1})
            journal.append({"n": 2})
            assert lines_of(journal) == [{"n": 1}, {"n": 2}]


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_every_record_comes_back_as_it_was(tmp_path_factory, trial_records, data):
    from pytest_infranoise.study.store import Manifest, Study

    folder = tmp_path_factory.mktemp("round-trip")
    drawn = data.draw(st.lists(trial_records, max_size=4))
    records = [replace(record, attempt=number) for number, record in enumerate(drawn, start=1)]
    with Journal(folder) as journal:
        for record in records:
            journal.append(record.to_json())
    study = Study(folder, Manifest({"tasks": [], "parameter_sets": []}))
    assert list(study.trial_records()) == records
    assert list(study.records()) == [record.to_json() for record in records]
