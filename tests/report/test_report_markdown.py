"""The Markdown report, read by a parser of Markdown and then of HTML."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from written import HOSTILE, a_manifest, a_page, a_record, all_text, parsed, some_records

from pytest_infranoise.report.markdown import BYTES_AT_MOST, escaped, to_markdown
from pytest_infranoise.report.model import one_line

WIDTHLESS = "\u200b"


def rendered(text):
    """Return what a site makes of Markdown with tables, strikethrough, links and inline HTML."""
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    return parsed(parser.render(text))


def shown(tree):
    return all_text(tree).replace(WIDTHLESS, "")


def test_the_verdict_stands_first_and_tables_are_tables():
    page = a_page(gates=["no-oom@1x", "lift(3x)~0+-3pp"])
    tree = rendered(to_markdown(page))
    assert all_text(next(tree.iter("strong"))) == page.headline
    first, second, tasks = tree.iter("table")
    assert [all_text(cell) for cell in first.find("tbody/tr")] == list(page.sets.rows[0])
    assert [all_text(cell) for cell in second.find("tbody/tr")] == list(page.comparisons.rows[0])
    assert all_text(tasks.find("tbody/tr")[1]) == "4 passed; peak 48 MiB of 64 MiB"
    lines = [shown(item) for item in tree.iter("li")]
    assert lines[:3] == list(page.answer)
    for line in (*page.gates, *page.verdict, *page.compared, *page.moved):
        assert line in lines


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_text(name):
    records = [
        a_record(name, each, 1, outcome, detail=name)
        for each, outcome in (("1x", "oom"), ("3x", "passed"))
    ]
    manifest = a_manifest([name], ("1x", "3x"), agent={"name": name}, notes=[name])
    tree = rendered(to_markdown(a_page(records, manifest)))
    assert {item.tag for item in tree.iter()} <= {
        "html", "head", "body", "h2", "p", "br", "strong", "ul", "li", "table", "thead", "tbody",
        "tr", "th", "td", "details", "summary", "sub", "blockquote",
    }  # fmt: skip
    cells = [shown(row[0]) for row in list(tree.iter("table"))[-1].find("tbody")]
    assert cells == [" ".join(one_line(name, 80).split(" ")).strip()]
    for call in ("@everyone", "https://", "www.evil", "a@evil"):
        assert call not in all_text(tree).replace("\u200b", "|")


@given(st.text(st.characters(exclude_characters="\u200b"), min_size=1, max_size=60))
def test_any_text_comes_back_as_itself(text):
    expected = one_line(text, 1000).strip()
    tree = rendered(f"- {escaped(text)}\n\n| a |\n| --- |\n| {escaped(text)} |\n")
    assert shown(tree.find("body/ul")).strip() == expected
    assert shown(tree.find("body/table/tbody/tr/td")).strip() == expected if expected else True


@pytest.mark.parametrize(("more_sets", "is_cut"), [(0, False), (40, True)])
def test_it_fits_into_a_comment_and_says_what_is_cut(more_sets, is_cut):
    tasks = [f"t{number:03}-{'x' * 100}" for number in range(80)]
    sets = ("1x", "3x", *(f"extra-{number}" for number in range(more_sets)))
    text = to_markdown(a_page(some_records(tasks, sets, samples=1), a_manifest(tasks, sets)))
    assert len(text.encode()) <= BYTES_AT_MOST
    assert text.splitlines()[-1].startswith("*Cut here: ") == is_cut
    assert text.count("<details>") == text.splitlines().count("</details>")
