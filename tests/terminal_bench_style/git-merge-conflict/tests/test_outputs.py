import subprocess


def git(*arguments: str) -> str:
    command = ["git", "-C", "/app/repo", "-c", "safe.directory=*", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_the_merge_has_two_parents() -> None:
    assert len(git("log", "-1", "--format=%P", "main").split()) == 2


def test_content() -> None:
    assert git("show", "main:greeting.txt") == "Good evening, Maria\n"


def test_nothing_is_left_over() -> None:
    assert git("status", "--porcelain") == ""
