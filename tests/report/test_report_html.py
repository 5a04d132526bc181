"""The HTML report, read by a parser that does what browsers do."""

import itertools
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from written import HOSTILE, a_manifest, a_page, a_record, all_text, parsed, some_records, tag_of

import pytest_infranoise.report.html
from pytest_infranoise.report.html import to_html
from pytest_infranoise.report.html.elements import visible
from pytest_infranoise.report.model import one_line

ALLOWED = {
    "html", "head", "meta", "title", "style", "body", "header", "nav", "main", "section", "footer",
    "h1", "h2", "h3", "p", "ul", "li", "a", "strong", "span", "bdi", "i", "div", "figure",
    "figcaption", "table", "caption", "thead", "tbody", "tr", "th", "td", "details", "summary",
    "pre", "dl", "dt", "dd", "svg", "desc", "text", "line", "rect", "circle", "polygon", "path",
    "defs", "pattern",
}  # fmt: skip
"""Everything that a report is made of; nothing here runs, loads or submits anything."""


def hostile_page():
    output = [{"phase": "</pre><script>", "exit_code": 1, "output": "\n".join(HOSTILE)}]
    records = [
        a_record(task, name, sample, outcome, detail=HOSTILE[sample], phases=output)
        for task in HOSTILE
        for name in ("1x", "3x")
        for sample, outcome in ((1, "oom"), (2, "passed"))
    ]
    manifest = a_manifest(
        HOSTILE,
        ("1x", "3x"),
        agent={"name": HOSTILE[0], "command": HOSTILE[1]},
        study=HOSTILE[5],
        notes=list(HOSTILE),
        disclosed={HOSTILE[0]: HOSTILE[5]},
        host={"cpu_model": HOSTILE[1], "kernel": HOSTILE[2], "system": "\x00"},
        command_line=list(HOSTILE),
    )
    return a_page(records, manifest)


def some_pages():
    tasks = [f"t{number}" for number in range(60)]
    many = [f"mem{number}x-cpu1x" for number in range(1, 15)]
    return {
        "plain": a_page(),
        "hostile": hostile_page(),
        "empty": a_page([]),
        "one trial": a_page([a_record("calm", "1x", 1, "passed")]),
        "large": a_page(some_records(tasks), a_manifest(tasks)),
        "many sets": a_page(some_records(sets=many), a_manifest(sets=many)),
        "unknown": a_page(
            [
                {**record, "started_at": None, "block": None, "oom_kills": None, "phases": []}
                for record in some_records()
            ],
            a_manifest(backend=None, agent=None, order=None, software=None),
        ),
    }


PAGES = some_pages()
every_page = pytest.mark.parametrize("name", PAGES)


def tree_of(name):
    return parsed(to_html(PAGES[name]))


@every_page
def test_nothing_in_it_runs_or_loads(name):
    tree = tree_of(name)
    for element in tree.iter():
        assert tag_of(element) in ALLOWED
        for key, value in element.attrib.items():
            assert not key.lower().startswith("on")
            assert key != "src"
            if key.endswith("href"):
                assert value.startswith("#")
            if key == "style":
                assert re.fullmatch(r"width:\d{1,3}%", value)
    style = "".join(tree.find("head/style").itertext())
    assert "@import" not in style
    assert set(re.findall(r"url\((.)", style)) <= {"#"}
    [policy] = [meta for meta in tree.iter("meta") if meta.get("http-equiv")]
    assert policy.get("content").startswith("default-src 'none'")


@every_page
def test_landmarks_headings_and_links(name):
    tree = tree_of(name)
    assert tree.get("lang") == "en"
    for landmark in ("header", "nav", "main", "footer"):
        assert len(list(tree.iter(landmark))) == 1
    levels = [int(tag_of(item)[1]) for item in tree.iter() if tag_of(item) in ("h1", "h2", "h3")]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    ids = [item.get("id") for item in tree.iter() if item.get("id")]
    assert len(ids) == len(set(ids))
    for section in tree.iter("section"):
        assert section.get("aria-labelledby") in ids
    links = [link.get("href") for link in tree.iter("a")]
    assert links == [f"#{section.get('id')}" for section in tree.iter("section")]


@every_page
def test_figures_can_be_read_without_being_seen(name):
    tree = tree_of(name)
    ids = {item.get("id"): item for item in tree.iter() if item.get("id")}
    for figure in (item for item in tree.iter() if tag_of(item) == "svg"):
        if figure.get("aria-hidden") == "true":
            continue
        assert figure.get("role") == "img"
        title, description = (ids[each] for each in figure.get("aria-labelledby").split())
        assert tag_of(title) == "title"
        assert all_text(title)
        assert len(all_text(description)) > 20


@every_page
def test_tables_have_captions_and_headings(name):
    for table in tree_of(name).iter("table"):
        assert all_text(table.find("caption"))
        width = len(table.find("thead/tr"))
        assert all(item.get("scope") == "col" for item in table.find("thead/tr"))
        for row in table.find("tbody"):
            assert len(row) == width
            assert row[0].tag == "th"
            assert row[0].get("scope") == "row"


def test_the_answer_is_read_first_and_then_the_two_charts():
    tree, page = tree_of("plain"), PAGES["plain"]
    heads = [all_text(item).lower() for item in tree.find("body/header")]
    assert heads[1:5] == [line.lower() for line in (page.headline, *page.answer)]
    assert heads[1].startswith("threshold: ")
    assert next(iter(tree.iter("section"))).get("id") == "rates"


def test_every_figure_of_the_tables_is_there():
    shown = [all_text(cell) for cell in tree_of("plain").iter("td")]
    page = PAGES["plain"]
    for table in (page.sets, page.comparisons):
        for row in table.rows:
            assert set(row[1:]) <= set(shown)


def test_outcomes_are_told_in_words_beside_their_colour():
    cells = [
        all_text(cell) for cell in tree_of("plain").iter("td") if cell.find("span") is not None
    ]
    assert "4 passed peak 48 MiB of 64 MiB" in cells
    assert "4 oom peak 48 MiB of 64 MiB, 4 kills" in cells


def test_gates_stand_below_the_verdict():
    tree = parsed(to_html(a_page(gates=["no-oom@1x"])))
    assert [item.get("id") for item in tree.iter("section")][:3] == ["rates", "verdict", "gates"]
    [line] = [item for item in tree.iter("bdi") if all_text(item).startswith("gate failed: no-oom")]
    assert line is not None


def test_a_name_that_is_written_from_right_to_left_turns_nothing_around():
    name = "\u05e9\u05dc\u05d5\u05dd"
    page = a_page([a_record(name, "1x", 1, "oom")], a_manifest([name]))
    [heading] = [
        item for item in parsed(to_html(page)).iter("summary") if item.find("bdi") is not None
    ]
    assert all_text(heading.find("bdi")) == name
    assert all_text(heading).startswith(f"OOM {name} 1x-s1 ended_phase")


def test_hostile_names_and_outputs_stay_text():
    tree = tree_of("hostile")
    shown = [all_text(item) for item in tree.iter("bdi")]
    for name in HOSTILE:
        assert one_line(name, 120) in shown
    outputs = [all_text(item) for item in tree.iter("pre")]
    assert any("<script>alert(1)</script>" in text for text in outputs)
    assert any("␛[31;1mred␛[0m" in text for text in outputs)
    assert any("\\u202egnp.exe" in text for text in outputs)


@every_page
def test_no_character_steers_a_terminal_or_the_direction_of_text(name):
    text = to_html(PAGES[name])
    assert {char for char in text if not char.isprintable()} <= {"\n", "\t"}
    assert text.encode("utf-8")


@given(st.text(st.characters(), min_size=1, max_size=80))
def test_any_name_comes_back_as_itself(name):
    page = a_page([a_record(name, "1x", 1, "passed")], a_manifest([name], ("1x",)))
    [table] = [item for item in parsed(to_html(page)).iter("table") if item.get("class") == "map"]
    assert all_text(table.find("tbody/tr/th")) == one_line(name, 120)


@given(st.text(max_size=200))
def test_any_output_comes_back_with_every_character_visible(output):
    tail = [{"phase": "agent", "exit_code": 0, "output": f".{output}."}]
    page = a_page([a_record("calm", "1x", 1, "oom", phases=tail)])
    shown = all_text(next(parsed(to_html(page)).iter("pre")))
    assert shown == visible(f".{output}.")
    assert all(char.isprintable() or char in "\n\t" for char in shown)


def test_ten_megabytes_of_output_are_cut():
    output = [{"phase": "agent", "exit_code": 137, "output": "<script>" * 1_300_000 + "the end"}]
    records = [a_record("hungry", "1x", n, "oom", phases=output) for n in range(1, 4)]
    text = to_html(a_page(records))
    assert len(text) < 150_000
    assert "the end" in text


def test_a_large_study_stays_readable():
    tasks = [f"build-something-{number:03}" for number in range(500)]
    sets = ("1x", "1.5x", "2x", "3x", "5x", "uncapped")
    text = to_html(a_page(some_records(tasks, sets, samples=1), a_manifest(tasks, sets)))
    assert len(text.encode()) < 2_000_000
    tree = parsed(text)
    folded = [item for item in tree.iter("details") if item.find("div/table") is not None]
    assert len(list(folded[0].iter("tr"))) == 461


# --- the colours ---

_SHEET = (Path(pytest_infranoise.report.html.__file__).parent / "page.css").read_text("utf-8")
_SCHEMES = dict(
    zip(("light", "dark"), re.findall(r":root \{(.*?)\}", _SHEET, re.DOTALL), strict=True)
)
_TINTS = [f"{name}-tint" for name in ("passed", "failed", "timeout", "oom", "infra")]
_TEXTS = [
    ("ink", "paper"), ("ink", "panel"), ("muted", "paper"), ("muted", "panel"), ("link", "paper"),
    ("warning", "panel"), *(("ink", tint) for tint in _TINTS),
]  # fmt: skip
_SHAPES = ["success", "passed", "failed", "timeout", "oom", "infra", "margin-edge", "muted"]


def contrast(scheme, first, second):
    """WCAG's contrast of two colours of a scheme, from 1 to 21."""
    colours = dict(re.findall(r"--([\w-]+): #([0-9a-f]{6});", _SCHEMES[scheme]))
    lights = []
    for name in (first, second):
        parts = [int(colours[name][place : place + 2], 16) / 255 for place in (0, 2, 4)]
        linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
        lights.append(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2])
    return (max(lights) + 0.05) / (min(lights) + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("text", "ground"), _TEXTS)
def test_text_can_be_read(scheme, text, ground):
    assert contrast(scheme, text, ground) >= 4.5


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("shape", _SHAPES)
def test_shapes_can_be_seen(scheme, shape):
    assert contrast(scheme, shape, "paper") >= 3


def test_print_is_light():
    assert "@media screen and (prefers-color-scheme: dark)" in _SHEET
    assert _SHEET.count("prefers-color-scheme") == 1
