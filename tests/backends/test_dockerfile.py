import tempfile
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_infranoise.backends.dockerfile import Copy, Dockerfile, read_dockerfile
from pytest_infranoise.errors import UsageError

HOST = {"PATH": "/usr/bin:/bin"}


def read(tmp_path: Path, text: str) -> Dockerfile:
    path = tmp_path / "Dockerfile"
    path.write_text(text, encoding="utf-8")
    return read_dockerfile(path, HOST)


def test_what_is_honoured(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        """
        # comment
        FROM python:3.11-slim AS base
        WORKDIR /app
        ENV NAME=value QUOTED="two words" \\
            # a comment between continued lines
            THIRD=3
        ENV OLD style with spaces
        COPY data.txt .
        COPY --chmod=755 --chown=1000:100 run.sh /usr/local/bin/run
        WORKDIR sub
        ADD ["a b.txt", "/x y/"]
        """,
    )
    assert found.base == "python:3.11-slim"
    assert found.workdir == PurePosixPath("/app/sub")
    assert found.folders == (PurePosixPath("/app"), PurePosixPath("/app/sub"))
    assert found.environment == {
        "NAME": "value",
        "QUOTED": "two words",
        "THIRD": "3",
        "OLD": "style with spaces",
    }
    first, second, third = found.copies
    assert first == Copy(("data.txt",), PurePosixPath("/app"), True, line=9)
    assert (second.mode, second.owner) == (0o755, (1000, 100))
    assert second.target == PurePosixPath("/usr/local/bin/run")
    assert not second.into_folder
    assert (third.sources, third.target) == (("a b.txt",), PurePosixPath("/x y"))


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("$PATH:/opt", "/usr/bin:/bin:/opt"),
        ("${PATH}:/opt", "/usr/bin:/bin:/opt"),
        ("${NONE:-fallback}", "fallback"),
        ("${EMPTY:-fallback}", "fallback"),
        ("${EMPTY-fallback}", ""),
        ("${PATH:+set}", "set"),
        ("${NONE:+set}", ""),
        (r"\$PATH", "$PATH"),
        ("$NONE", ""),
        ("${VERSION}.0", "7.0"),
    ],
)
def test_variables(tmp_path: Path, written: str, value: str) -> None:
    found = read(tmp_path, f'FROM x\nARG VERSION=7\nENV EMPTY=""\nENV V="{written}"\n')
    assert found.environment["V"] == value


def test_one_instruction_sees_values_from_before_it(tmp_path: Path) -> None:
    found = read(tmp_path, "FROM x\nENV A=old\nENV A=new B=$A\n")
    assert found.environment == {"A": "new", "B": "old"}


def test_a_stage_begins_anew(tmp_path: Path) -> None:
    found = read(tmp_path, "FROM a\nWORKDIR /one\nENV X=1\nCOPY a /a\nFROM b\nENV Y=2\n")
    assert (found.base, found.workdir, found.environment) == ("b", None, {"Y": "2"})
    assert (found.copies, found.folders) == ((), ())


@pytest.mark.parametrize(
    "line",
    [
        'CMD ["python3"]',
        "ENTRYPOINT sleep 1",
        "EXPOSE 80",
        "LABEL a=b",
        "USER nobody",
        "VOLUME /data",
        "STOPSIGNAL SIGINT",
        "HEALTHCHECK NONE",
        'SHELL ["/bin/bash", "-c"]',
        "MAINTAINER me",
    ],
)
def test_what_changes_nothing_is_passed_over(tmp_path: Path, line: str) -> None:
    assert read(tmp_path, f"FROM x\n{line}\nWORKDIR /w\n").workdir == PurePosixPath("/w")


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("RUN apt-get install -y gcc", "RUN"),
        ("run true", "RUN"),
        ("ONBUILD COPY . .", "ONBUILD"),
        ("COPY --from=base /a /b", "COPY --from"),
        ("COPY --parents a /b", "COPY --parents"),
        ("ADD https://example.org/x /x", "ADD"),
        ("ADD x.tar.gz /x", "ADD"),
        ("COPY <<EOF /x", "COPY"),
        ("COPY only", "COPY"),
        ("COPY --chown=agent a /b", "COPY --chown=agent"),
        ("COPY --chmod=u+x a /b", "COPY --chmod=u+x"),
        ("ENV =x", "ENV"),
        ("SOMETHING else", "SOMETHING"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(tmp_path: Path, line: str, named: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(tmp_path, f"FROM x\n\n{line}\n")
    message = str(caught.value)
    assert message.startswith(f"{tmp_path}/Dockerfile:3: {named} ")
    assert "\n" not in message


def test_line_number_is_where_a_continued_instruction_begins(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"Dockerfile:2: RUN"):
        read(tmp_path, "FROM x\nRUN a \\\n  && b \\\n  && c\n")


def test_escape_directive(tmp_path: Path) -> None:
    assert read(tmp_path, "# escape=`\nFROM x\nENV A=1 `\n  B=2\n").environment == {
        "A": "1",
        "B": "2",
    }


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Dockerfile: No such file"):
        read_dockerfile(tmp_path / "Dockerfile", {})


@given(st.lists(st.sampled_from(["..", ".", "a", "b", "/"]), max_size=6))
def test_targets_never_leave_the_root(parts: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = read(Path(folder), f"FROM x\nWORKDIR /w\nCOPY f {'/'.join(parts) or '.'}\n")
    target = found.copies[0].target
    assert target.is_absolute()
    assert ".." not in target.parts


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=80))
def test_any_text_is_read_or_refused(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "Dockerfile")
        path.write_text(text, encoding="utf-8")
        try:
            found = read_dockerfile(path, HOST)
        except UsageError as error:
            message = str(error)
        else:
            message = str(found.path)
    assert message.startswith(str(path))
