import json
import os
import re
import shutil
import subprocess
import tempfile

import pytest

from pytest_infranoise.errors import InfranoiseError, UsageError
from pytest_infranoise.study import Redactor, create_study, load_study, new_study_id
from pytest_infranoise.study import writer as writer_module
from pytest_infranoise.study.files import write_json
from pytest_infranoise.study.journal import JOURNAL_NAME, JournalError
from pytest_infranoise.study.writer import MANIFEST_NAME, resume_study

STUDY = "2026-12-01T10-22-31Z-5f3a"
MANIFEST = {
    "schema_version": 1,
    "study": STUDY,
    "tasks": [{"name": "spike"}],
    "parameter_sets": [{"id": "1x"}],
    "ended_at": None,
}


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def test_ids_sort_by_time_and_are_safe_as_names():
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\dZ-[0-9a-f]{4}", new_study_id())
    assert len({new_study_id() for _ in range(20)}) > 1


def test_nothing_is_created_before_the_start(tmp_path):
    writer = create_study(MANIFEST, root=tmp_path)
    writer.finish()
    writer.close()
    assert not writer.is_started
    assert list(tmp_path.iterdir()) == []


def test_the_life_of_a_study(tmp_path, make_record):
    writer = create_study(MANIFEST, root=tmp_path)
    assert writer.directory == tmp_path / ".infranoise" / STUDY
    writer.start()
    writer.start()
    assert not load_study(writer.directory).manifest.is_finished
    writer.append(make_record())
    assert list(load_study(writer.directory).records()) == [make_record()]
    writer.finish(exit_code=1)
    study = load_study(writer.directory)
    assert study.manifest.is_finished
    assert study.manifest.data["exit_code"] == 1
    assert len(study.manifest.data["load_at_end"]["load_average"]) == 3
    assert names_in(writer.directory) == [MANIFEST_NAME, JOURNAL_NAME]


def test_the_first_record_starts_it(tmp_path, make_record):
    writer = create_study(MANIFEST, directory=tmp_path / "deep" / "study")
    writer.append(make_record())
    assert load_study(tmp_path / "deep" / "study").manifest.study == STUDY
    writer.close()


def test_default_root_is_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert create_study(MANIFEST).directory == tmp_path / ".infranoise" / STUDY
    assert create_study(MANIFEST, directory=tmp_path.relative_to(tmp_path)).directory == tmp_path


def test_studies_are_kept_out_of_version_control(tmp_path):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    writer = create_study(MANIFEST, root=tmp_path)
    writer.start()
    writer.close()
    status = ["git", "-C", str(tmp_path), "status", "--porcelain", "-uall"]
    assert subprocess.run(status, check=True, capture_output=True).stdout == b""


def test_a_folder_that_the_user_names_gets_no_gitignore(tmp_path):
    writer = create_study(MANIFEST, directory=tmp_path / "study")
    writer.start()
    writer.close()
    assert names_in(tmp_path) == ["study"]
    assert names_in(tmp_path / "study") == [MANIFEST_NAME, JOURNAL_NAME]


def test_a_gitignore_of_the_users_stays(tmp_path):
    (tmp_path / ".infranoise").mkdir()
    (tmp_path / ".infranoise" / ".gitignore").write_text("mine\n")
    create_study(MANIFEST, root=tmp_path).start()
    assert (tmp_path / ".infranoise" / ".gitignore").read_text() == "mine\n"


class TestRefusals:
    def test_a_folder_with_records(self, tmp_path, make_record):
        first = create_study(MANIFEST, directory=tmp_path)
        first.append(make_record())
        first.finish()
        with pytest.raises(UsageError, match=r"--infra-study: .* already holds the records"):
            create_study(MANIFEST, directory=tmp_path)

    def test_a_folder_that_received_records_meanwhile(self, tmp_path, make_record):
        late = create_study(MANIFEST, directory=tmp_path)
        first = create_study(MANIFEST, directory=tmp_path)
        first.append(make_record())
        with pytest.raises(UsageError, match="already holds the records"):
            late.start()
        first.close()

    def test_a_folder_that_another_process_starts_to_write(self, tmp_path):
        late = create_study(MANIFEST, directory=tmp_path)
        first = create_study({**MANIFEST, "study": "first"}, directory=tmp_path)
        first.start()
        with pytest.raises(UsageError, match="another process is writing"):
            late.start()
        assert load_study(tmp_path).manifest.study == "first"
        first.close()

    def test_a_file(self, tmp_path):
        (tmp_path / "file").touch()
        with pytest.raises(UsageError, match="is not a folder"):
            create_study(MANIFEST, directory=tmp_path / "file")

    def test_a_folder_below_a_file(self, tmp_path):
        (tmp_path / "file").touch()
        with pytest.raises(UsageError, match=r"--infra-study: .*Not a directory"):
            create_study(MANIFEST, directory=tmp_path / "file" / "study").start()

    def test_a_start_that_failed_can_be_tried_again(self, tmp_path, make_record, monkeypatch):
        writer = create_study(MANIFEST, directory=tmp_path / "study")

        def fail(*_):
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(writer_module, "write_json", fail)
            with pytest.raises(UsageError, match="cannot be written: No space left"):
                writer.start()
        assert not writer.is_started
        writer.append(make_record())
        writer.finish()
        assert len(load_study(tmp_path / "study").table()) == 1

    def test_an_aborted_start_without_records_is_no_obstacle(self, tmp_path, make_record):
        aborted = create_study(MANIFEST, directory=tmp_path)
        aborted.start()
        aborted.close()
        writer = create_study(MANIFEST, directory=tmp_path)
        writer.append(make_record())
        writer.close()
        assert len(load_study(tmp_path).table()) == 1


def test_secrets_stand_in_no_file(tmp_path, make_record):
    secret = "sk-live-0123456789"
    writer = create_study(MANIFEST, directory=tmp_path, redactor=Redactor({"API_KEY": secret}))
    phase = {"phase": "agent", "output": f"env: {secret}!", "error": secret, "exit_code": 0}
    writer.append(make_record(detail=secret, notes=[secret], phases=[phase]))
    writer.finish(ended_by=f"error with {secret}")
    for path in tmp_path.iterdir():
        assert secret not in path.read_text()
    (record,) = load_study(tmp_path).records()
    assert record["phases"][0]["output"] == "env: <redacted API_KEY>!"
    assert record["phases"][0]["exit_code"] == 0


def test_records_that_the_disk_refused_are_written_at_the_end(tmp_path, make_record, monkeypatch):
    writer = create_study(MANIFEST, directory=tmp_path)
    writer.start()

    def fail(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", fail)
        with pytest.raises(InfranoiseError, match="No space left"):
            writer.append(make_record())
        assert writer.unwritten == [make_record()]
    writer.finish()
    assert len(load_study(tmp_path).table()) == 1
    assert writer.unwritten == []


def test_a_manifest_that_cannot_be_written_at_the_end_leaves_the_old_one(tmp_path, monkeypatch):
    writer = create_study(MANIFEST, directory=tmp_path)
    writer.start()

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writer_module, "write_json", fail)
    with pytest.raises(InfranoiseError, match=rf"{MANIFEST_NAME}: cannot be written: No space"):
        writer.finish()
    assert not load_study(tmp_path).manifest.is_finished


class TestWriteJson:
    def test_it_replaces_whole(self, tmp_path):
        path = tmp_path / "m.json"
        path.write_text("old")
        write_json(path, {"a": "\ud800\u2028"})
        assert json.loads(path.read_text()) == {"a": "\ud800\u2028"}
        assert names_in(tmp_path) == ["m.json"]

    def test_a_failure_leaves_the_old_file_and_no_draft(self, tmp_path, monkeypatch):
        path = tmp_path / "m.json"
        path.write_text("old")

        def fail(_):
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="Input/output"):
            write_json(path, {})
        assert path.read_text() == "old"
        assert names_in(tmp_path) == ["m.json"]


class TestOtherFiles:
    @pytest.mark.parametrize("name", ["thesis.txt", "src"])
    def test_a_folder_with_something_else_is_refused(self, name, tmp_path):
        (tmp_path / name).mkdir()
        with pytest.raises(UsageError, match=f"holds {name} and no study; name a folder that is"):
            create_study({"study": "s"}, directory=tmp_path)

    @pytest.mark.parametrize("name", [".gitkeep", "manifest.json", "trials.jsonl"])
    def test_what_a_study_leaves_behind_is_no_obstacle(self, name, tmp_path):
        (tmp_path / name).touch()
        create_study({"study": "s"}, directory=tmp_path).start()


class TestSomebodyElsesStudy:
    """Only who holds the lock removes anything."""

    def test_a_refused_start_removes_nothing_of_the_one_that_runs(self, tmp_path, make_record):
        folder = tmp_path / "study"
        late = create_study(MANIFEST, directory=folder)
        first = create_study({**MANIFEST, "study": "first"}, directory=folder)
        first.start()
        with pytest.raises(UsageError, match="another process is writing"):
            late.start()
        late.discard()
        late.close()
        first.append(make_record())
        first.finish()
        study = load_study(folder)
        assert (study.manifest.study, len(study.table())) == ("first", 1)

    def test_who_never_started_removes_nothing(self, tmp_path):
        (tmp_path / MANIFEST_NAME).write_text("{}")
        (tmp_path / JOURNAL_NAME).touch()
        create_study(MANIFEST, directory=tmp_path).discard()
        assert set(names_in(tmp_path)) == {MANIFEST_NAME, JOURNAL_NAME}

    def test_a_study_that_goes_on_without_a_record_stays(self, tmp_path):
        first = create_study(MANIFEST, directory=tmp_path / "study")
        first.start()
        first.close()
        again = resume_study(tmp_path / "study", MANIFEST)
        again.start()
        again.discard()
        assert load_study(tmp_path / "study").manifest.study == MANIFEST["study"]

    def test_a_folder_of_the_users_stays(self, tmp_path):
        (tmp_path / "study").mkdir()
        writer = create_study(MANIFEST, directory=tmp_path / "study")
        writer.start()
        writer.discard()
        assert names_in(tmp_path / "study") == []

    def test_what_took_the_place_stays(self, tmp_path):
        writer = create_study(MANIFEST, directory=tmp_path / "study")
        writer.start()
        (tmp_path / "study").rename(tmp_path / "moved")
        other = create_study(MANIFEST, directory=tmp_path / "study")
        other.start()
        writer.discard()
        assert set(names_in(tmp_path / "study")) == {MANIFEST_NAME, JOURNAL_NAME}
        other.discard()


def remove(folder):
    shutil.rmtree(folder)


def move(folder):
    folder.rename(folder.with_name("moved"))


def unlink(folder):
    (folder / JOURNAL_NAME).unlink()


def replace_copy(folder):
    move(folder)
    shutil.copytree(folder.with_name("moved"), folder)


def cut(folder):
    os.truncate(folder / JOURNAL_NAME, 0)


def lengthen(folder):
    with (folder / JOURNAL_NAME).open("a") as file:
        file.write("\n")


DISPLACED = {
    remove: "was removed or moved",
    move: "was removed or moved",
    unlink: "was removed or moved",
    replace_copy: "was replaced by another file",
    cut: r"was changed by somebody else \(\d+ bytes before, 0 now\)",
    lengthen: "was changed by somebody else",
}


class TestADisplacedJournal:
    @pytest.fixture
    def elsewhere(self, tmp_path, monkeypatch):
        (tmp_path / "temporary").mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
        return tmp_path / "temporary"

    @pytest.mark.parametrize("displace", DISPLACED, ids=lambda item: item.__name__)
    @pytest.mark.parametrize("late", [0, 1])
    def test_all_records_are_rescued(self, tmp_path, make_record, elsewhere, displace, late):
        folder, records = tmp_path / "study", [make_record(sample=n) for n in (1, 2, 3)]
        writer = create_study(MANIFEST, directory=folder)
        for record in records[: 3 - late]:
            writer.append(record)
        displace(folder)
        before = {path: path.read_bytes() for path in folder.glob("*")}
        for record in records[3 - late :]:
            with pytest.raises(JournalError, match=DISPLACED[displace]):
                writer.append(record)
        with pytest.raises(JournalError, match=DISPLACED[displace]):
            writer.finish()
        count, words = writer.rescue(records)
        assert count == 3
        assert "all 3 record(s) of the study are in" in words
        saved = elsewhere / f"infranoise-{MANIFEST['study']}-{JOURNAL_NAME}"
        assert [json.loads(line) for line in saved.read_text().splitlines()] == records
        (manifest,) = elsewhere.glob("*manifest.json")
        assert json.loads(manifest.read_text())["ended_at"]
        assert {path: path.read_bytes() for path in folder.glob("*")} == before

    def test_a_folder_that_comes_back_takes_what_waited(self, tmp_path, make_record):
        writer = create_study(MANIFEST, directory=tmp_path / "study")
        writer.start()
        move(tmp_path / "study")
        with pytest.raises(JournalError, match="1 record"):
            writer.append(make_record())
        (tmp_path / "moved").rename(tmp_path / "study")
        writer.finish()
        assert len(load_study(tmp_path / "study").table()) == 1

    def test_a_manifest_that_vanished_is_written_again(self, tmp_path, make_record):
        writer = create_study(MANIFEST, directory=tmp_path)
        writer.append(make_record())
        (tmp_path / MANIFEST_NAME).unlink()
        writer.finish()
        assert load_study(tmp_path).manifest.is_finished
