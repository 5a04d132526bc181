"""What must hold of the repository itself: no traces of machines, current documents."""

import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

import pytest

import pytest_infranoise
from pytest_infranoise.plugin.options import OPTIONS

ROOT = Path(__file__).parents[1]

# Written apart, so that this file does not match itself.
_HOSTS = ("py" + "pi.org", "python" + "hosted", "docker" + ".io/", "gh" + "cr.io", "quay" + ".io")
_HOSTS += ("deb." + "debian" + ".org", "registry" + ".npmjs", "pkg" + ".dev", "gcr" + ".io")
_PLACES = (
    r"/wo" + r"rk/",
    r"/home" + r"/(?!me\b)\w+",
    r"/tm" + r"p/wk",
    r"/opt/py" + "pi",
)
FORBIDDEN = {
    "a registry's host": re.compile("|".join(re.escape(host) for host in _HOSTS)),
    "a path of one machine": re.compile(
        "|".join([*(rf"(?<![\w.}}]){place}" for place in _PLACES), "/ro" + "ot/"])
    ),
}


def committed_files() -> list[str]:
    """Files of the index; without git (an unpacked archive), what an archive would hold."""
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z"]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        return [str(path.relative_to(ROOT)) for path in ROOT.rglob("*.*") if _is_source(path)]
    return [name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def _is_source(path: Path) -> bool:
    parts = path.relative_to(ROOT).parts
    hidden = any(part.startswith(".") and part != ".ci" for part in parts[:-1])
    return path.is_file() and not hidden and "__pycache__" not in parts


@pytest.mark.parametrize("kind", FORBIDDEN)
def test_no_file_names(kind: str) -> None:
    found = [
        f"{name}:{number}: {line.strip()[:120]}"
        for name in committed_files()
        for number, line in enumerate((ROOT / name).read_text(errors="replace").splitlines(), 1)
        if FORBIDDEN[kind].search(line)
    ]
    assert found == [], f"{kind} in committed files"


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("a registry's host", "index-url = https://" + "py" + "pi.org/simple"),
        ("a registry's host", "FROM docker" + ".io/library/python"),
        ("a path of one machine", "cd /wo" + "rk/main"),
        ("a path of one machine", "open('/home" + "/somebody/x')"),
        ("a path of one machine", "PATH=/ro" + "ot/.pyenv/bin"),
        ("a path of one machine", "$partial/ro" + "ot/proc"),
    ],
)
def test_the_search_for_traces_finds_them(kind: str, line: str) -> None:
    assert FORBIDDEN[kind].search(line)


def test_the_installed_version_is_the_package_s() -> None:
    assert importlib.metadata.version("pytest-infranoise") == pytest_infranoise.__version__


def test_the_changelog_begins_with_the_version() -> None:
    headings = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] in (pytest_infranoise.__version__, "Unreleased")
    assert pytest_infranoise.__version__ in headings


def test_the_page_of_options_is_current() -> None:
    command = [sys.executable, ROOT / "docs" / "make_options.py", "-"]
    made = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    assert (ROOT / "docs" / "options.md").read_text() == made, "run python docs/make_options.py"


def test_the_page_of_options_names_every_option_and_its_twin() -> None:
    page = (ROOT / "docs" / "options.md").read_text()
    for spec in OPTIONS:
        assert f"| `{spec.flag}`" in page
        assert f"| `{spec.dest}` |" in page


def test_every_option_in_the_documents_exists() -> None:
    known = {spec.flag for spec in OPTIONS}
    for name in committed_files():
        if name.endswith(".md"):
            text = (ROOT / name).read_text()
            named = set(re.findall(r"--infra-[a-z]+(?:-[a-z]+)*", text))
            assert named <= known, f"{name} names options that do not exist"


def test_every_link_between_documents_leads_somewhere() -> None:
    for name in committed_files():
        if name.endswith(".md"):
            for target in re.findall(r"\]\(([^)\s]+)\)", (ROOT / name).read_text()):
                if "://" not in target and not target.startswith("#"):
                    path = (ROOT / name).parent / target.split("#")[0]
                    assert path.exists(), f"{name} links to {target}"


def test_ci_is_executable() -> None:
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111
