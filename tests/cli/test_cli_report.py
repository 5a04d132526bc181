"""The report of a study on disk."""

import json
import re

import pytest
from cli_tables import CASES

from pytest_infranoise.report.terminal import summary_lines
from pytest_infranoise.report.view import view_study
from pytest_infranoise.study.store import load_study

S11 = CASES["S11"]["input"]["rows"]
SMALL = CASES["S05"]["input"]["rows"]
DOCKER = {
    "backend": "docker",
    "engine": "docker 20.10.24",
    "cgroup_version": 1,
    "enforcement": "hard limit",
}
NATIVE = {"source": None, "backend": DOCKER, "agent": {"name": "cat"}, "order": "interleaved"}


@pytest.mark.parametrize("options", [(), ("-v",), ("-vv",), ("-q",), ("-qv",)])
def test_it_is_the_terminal_summary(options, make_study, command):
    study = make_study(SMALL, **NATIVE)
    verbosity = sum(word.count("v") - word.count("q") for word in options)
    code, out, err = command("report", study, *options)
    expected = summary_lines(view_study(load_study(study)), verbosity=verbosity)
    assert (code, err) == (0, "")
    assert out.splitlines() == [line.text for line in expected]


def test_a_native_study_names_agent_order_and_engine(make_study, command):
    _, out, _ = command("report", make_study(SMALL, **NATIVE))
    assert out.startswith("threshold: ")
    first, second = out.splitlines()[4:6]
    assert first == '8 tasks x 2 parameter sets x 3 samples, agent "cat", interleaved'
    assert second == ("docker 20.10.24, cgroup v1, hard limit, oom policy process, 48 of 48 trials")


def test_imported_counts_say_what_is_unknown(make_study, command):
    _, out, _ = command("report", make_study(SMALL))
    first, second = out.splitlines()[4:6]
    assert first == "8 tasks x 2 parameter sets x 3 samples, agent unknown, order unknown"
    assert second == "imported counts (table.csv), 48 of 48 trials"
    assert "the order of the sets is unknown" in out


@pytest.mark.parametrize(
    "facts",
    [
        {"backend": None}, {"backend": {}}, {"backend": "docker"}, {"backend": {"engine": None}},
        {"agent": None}, {"agent": "cat"}, {"agent": {}}, {"order": None}, {"order": 7},
        {"samples": "many"}, {"planned_trials": None}, {"planned_trials": "all"},
        {"baseline": None}, {"source": "counts"}, {"source": {}}, {"workers": None},
    ],
    ids=str,
)  # fmt: skip
def test_facts_that_are_missing_or_strange_cost_nothing_but_themselves(facts, make_study, command):
    study = make_study(SMALL, **{**NATIVE, **facts})
    code, out, err = command("report", study, "-v")
    assert (code, err) == (0, "")
    assert "None" not in out.splitlines()[1]
    assert "8 tasks" in out


@pytest.mark.parametrize(
    "facts",
    [
        {"baseline": "9x"},
        {"parameter_sets": [{"id": "1x", "memory_multiplier": "x"}]},
        {"parameter_sets": [{"id": "1x", "memory_multiplier": 0}]},
        {"parameter_sets": [{"id": "1x", "memory_multiplier": -1, "cpu_multiplier": 1}]},
        {"parameter_sets": [{}]},
        {"parameter_sets": 5},
        {"tasks": [3]},
        {"equal_sets": [["1x"]]},
        {"study": None},
        {"schema_version": 99},
        {"schema_version": "1"},
    ],
    ids=str,
)
def test_a_manifest_that_cannot_be_used_is_one_line(facts, make_study, command):
    code, out, err = command("report", make_study(SMALL, **facts))
    assert (code, out, err.count("\n")) == (4, "", 1)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "[" * 100_000, "\x00", "\ud800"], ids=repr)
def test_a_manifest_that_is_no_json_is_one_line(text, make_study, command):
    study = make_study(SMALL)
    (study / "manifest.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    code, out, err = command("report", study)
    assert (code, out, err.count("\n")) == (4, "", 1)
    assert "manifest.json" in err


@pytest.mark.parametrize("line", ["{}", "nonsense", "[]", "[" * 100_000, '{"schema_version":1}'])
def test_a_line_that_is_no_record_is_named(line, make_study, command):
    study = make_study(SMALL)
    with (study / "trials.jsonl").open("a") as file:
        file.write(line + "\n")
    code, out, err = command("report", study)
    assert (code, out, err.count("\n")) == (4, "", 1)
    assert "trials.jsonl:49" in err


def test_a_study_that_has_not_ended(make_study, command):
    study = make_study(SMALL, ended_at=None, planned_trials=None, **NATIVE)
    journal = (study / "trials.jsonl").read_bytes()
    (study / "trials.jsonl").write_bytes(journal[:-40])  # the writer is in the middle of a line
    code, out, err = command("report", study)
    assert (code, err) == (0, "")
    assert any(line.endswith(", 47 trials") for line in out.splitlines())
    assert "the study has not ended" in out


def test_a_study_whose_first_trial_has_not_ended(make_study, command):
    study = make_study(SMALL, ended_at=None, **NATIVE)
    (study / "trials.jsonl").unlink()
    code, out, _ = command("report", study)
    assert code == 0
    assert "no trial has an outcome" in out
    assert command("report", study, "--format", "json")[0] == 0


def test_the_folder_or_a_file_in_it(make_study, command):
    study = make_study(SMALL)
    expected = command("report", study)
    assert command("report", study / "manifest.json") == expected
    assert command("report", study / "trials.jsonl") == expected


def analysed(command, study, *options):
    code, out, _ = command("report", study, "--format", "json", *options)
    assert code == 0
    return json.loads(out)


def test_the_margin_decides_what_is_equivalent(make_study, command):
    study = make_study(S11)
    strict = analysed(command, study, "--margin", "0.5pp")
    loose = analysed(command, study, "--margin=20%")
    assert (strict["margin"], loose["margin"]) == (0.005, 0.2)
    found = [
        [c["measures"]["success"]["equivalent"] for c in t["comparisons"]] for t in (strict, loose)
    ]
    assert found == [[False] * 3, [True] * 3]


def test_alpha_and_the_other_choices_arrive(make_study, command):
    study = make_study(S11)
    plain = analysed(command, study)
    table = analysed(
        command, study, "--alpha", "0.01", "--floor", "2x", "--ceiling", "uncapped",
        "--timeouts-are-infra", "--baseline", "2x",
    )  # fmt: skip
    assert table["alpha"] == 0.01
    assert table["baseline"] == "2x"
    assert [item["parameter_set"] for item in table["comparisons"]] == ["1x", "3x", "uncapped"]
    band = table["noise_band"]["declared"]
    assert (band["floor"], band["ceiling"]) == ("2x", "uncapped")
    rates = [t["parameter_sets"][0]["infra_error"]["events"] for t in (plain, table)]
    assert rates == [60, 130]  # the 70 timeouts at 1x


@pytest.mark.parametrize("option", ["--baseline", "--floor", "--ceiling"])
def test_a_set_that_is_none_is_one_line(option, make_study, command):
    code, _, err = command("report", make_study(SMALL), option, "9x")
    assert (code, err.count("\n")) == (4, 1)
    assert "9x" in err


def test_a_dimension_picks_one_of_a_cross_product(make_study, command):
    sets = ("mem1x-cpu1x", "mem3x-cpu1x", "mem1x-cpu3x")
    rows = [(task, name, 1, 0, 0, 0, 0) for task in "abc" for name in sets]
    study = make_study(rows)
    assert analysed(command, study)["trend"] == {}
    assert "vary on their own" in analysed(command, study)["recommendation"]["why"]
    followed = analysed(command, study, "--dimension", "memory")
    assert "vary on their own" not in followed["recommendation"]["why"]


def test_a_local_recommendation_waits_for_its_acceptance(make_study, command):
    local = {**NATIVE, "backend": {**DOCKER, "backend": "local", "engine": "local linux 6.1"}}
    study = make_study(S11, **local)
    withheld = analysed(command, study)["recommendation"]
    assert (withheld["status"], withheld["parameter_set"]) == ("withheld", None)
    accepted = analysed(command, study, "--accept-engine")["recommendation"]
    assert accepted["parameter_set"] == withheld["candidate"] == "3x"


def test_equal_sets_follow_the_chosen_baseline(make_study, command):
    study = make_study(S11, equal_sets=[["3x", "uncapped"]])
    assert analysed(command, study)["not_compared"] == []
    assert analysed(command, study, "--baseline", "3x")["not_compared"] == ["uncapped"]


def test_the_reference_agent_is_fit_only(make_study, command):
    study = make_study(SMALL, **{**NATIVE, "agent": {"name": "oracle"}})
    assert analysed(command, study)["fit_only"] is True
    _, out, _ = command("report", study, "-q")
    assert "fit only" in out


def test_nothing_in_a_study_steers_the_terminal(make_study, command):
    study = make_study(SMALL)
    for name in ("manifest.json", "trials.jsonl"):
        text = (study / name).read_text().replace('"3x"', '"3x\\u001b[2J"')
        (study / name).write_text(text.replace('"t1"', '"t\\u001b]0;x\\u0007"'))
    code, out, _ = command("report", study, "-vv")
    assert code == 0
    assert "3x [2J" in out
    assert out.replace("\n", "").isprintable()


def test_json_is_the_same_for_a_shuffled_journal(make_study, command):
    study = make_study(SMALL)
    expected = analysed(command, study)
    lines = (study / "trials.jsonl").read_text().splitlines(keepends=True)
    (study / "trials.jsonl").write_text("".join(reversed(lines)))
    assert analysed(command, study) == expected


def test_files_hold_what_is_printed(make_study, command, tmp_path):
    study = make_study(SMALL, **NATIVE)
    files = [tmp_path / name for name in ("r.html", "r.md", "r.json", "r.csv")]
    code, out, err = command("report", study, *(word for file in files for word in ("-o", file)))
    assert (code, err) == (0, "")
    assert out.splitlines() == [f"report: {file}" for file in files]
    assert json.loads(files[2].read_text())["analysis"] == analysed(command, study)
    assert len(files[3].read_text().splitlines()) == 49


def test_choices_arrive_in_the_file(make_study, command, tmp_path):
    study, file = make_study(S11), tmp_path / "r.md"
    assert command("report", study, "-o", file, "--baseline", "2x", "--margin", "20%")[0] == 0
    assert "equivalent to 2x within +-20 points" in file.read_text()


def test_a_report_of_a_growing_study_says_so_and_is_a_look(make_study, command, tmp_path):
    study, file = make_study(SMALL, ended_at=None), tmp_path / "r.html"
    assert command("report", study, "-o", file)[0] == 0
    assert "the study has not ended" in file.read_text()
    assert len((study / "looks.jsonl").read_text().splitlines()) == 1


@pytest.mark.parametrize(
    "options", [("-o", "r.pdf"), ("-o", "missing/r.html"), ("-o", "r.md", "--format", "json")]
)
def test_a_file_that_cannot_be_is_one_line_before_the_study_is_read(options, command):
    code, out, err = command("report", "/nowhere", *options)
    assert (code, out, err.count("\n")) == (4, "", 1)
    assert err.startswith(("infranoise: -o: ", "infranoise: --format: "))


def lines_within(study, width):
    view = view_study(load_study(study))
    return [line.text for line in summary_lines(view, width=width)]


def test_tables_fit_eighty_columns(make_study):
    study = make_study(S11)
    wide, narrow = (lines_within(study, width) for width in (None, 80))
    tables = [
        line for line in narrow if line.startswith(("set ", "against 1x", "1x ", "uncapped "))
    ]
    assert max(map(len, tables)) <= 80
    cells = [word for line in wide for word in line.split() if "[" in word]
    assert cells == [word for line in narrow for word in line.split() if "[" in word]
    assert [line for line in narrow if line.startswith("(infra errors = oom + infra)")]


def test_a_wide_terminal_and_a_pipe_get_one_table(make_study):
    study = make_study(S11)
    assert lines_within(study, 200) == lines_within(study, None)


def test_the_note_on_infra_errors_moves_before_a_table_is_cut(make_study):
    lines = lines_within(make_study(S11), 100)
    (place,) = [number for number, line in enumerate(lines) if line.startswith("set ")]
    assert "infra errors" in lines[place]
    assert lines[place + 5] == "(infra errors = oom + infra)"


def test_a_folder_of_studies_names_them(make_study, command, tmp_path):
    (tmp_path / ".infranoise").mkdir()
    first = make_study(SMALL).rename(tmp_path / ".infranoise" / "2026-12-01T10-22-31Z-5f3a")
    code, out, err = command("report", first.parent)
    assert (code, out) == (4, "")
    assert err == f"infranoise: {first.parent}: a folder with a study; name one: {first}\n"
    for number in range(6):
        (first.parent / f"later-{number}").mkdir()
        (first.parent / f"later-{number}" / "manifest.json").write_text("{}")
    _, _, err = command("report", first.parent)
    assert "a folder with 7 studies, newest first; name one: " in err
    assert err.rstrip().endswith(" and 2 more")


def test_a_dimension_that_was_not_scaled(make_study, command):
    code, out, err = command("report", make_study(SMALL), "--dimension", "cpu")
    assert (code, out, err.count("\n")) == (4, "", 1)
    assert "no set of this study scales CPU alone" in err


def a_published_study():
    """89 tasks x 6 sets x 5 samples: kills at the lower sets, a few other errors, some timeouts."""
    rows = []
    for index in range(89):
        steady = index % 6
        for at, name in enumerate(("1x", "1.5x", "2x", "3x", "5x", "uncapped")):
            killed = max(0, 3 - at) if index % 11 == 0 else 0
            other = int(index == 40 + at)
            late = int(index % 17 == 3 and at < 2)
            passed = max(0, min(5, steady + (at == 5)) - killed - other - late)
            failed = 5 - passed - killed - other - late
            rows.append((f"category/task-{index:02d}", name, passed, failed, late, killed, other))
    return rows


def test_the_summary_of_a_published_study_is_thirty_lines_and_answers_in_four(make_study, command):
    _, out, _ = command("report", make_study(a_published_study(), **NATIVE))
    lines = out.splitlines()
    assert [line.split(":")[0] for line in lines[:4]] == ["threshold", "score", "noise", "next"]
    assert len(lines) <= 30
    assert "89 tasks x 6 parameter sets x 5 samples" in lines[4]


def test_copies_of_a_reference_solution_have_no_p_values(make_study, command):
    study = make_study(a_published_study(), **{**NATIVE, "agent": {"name": "oracle"}})
    _, out, _ = command("report", study)
    assert "against 1x" in out
    assert re.search(r"\bp [=<(]", out) is None
