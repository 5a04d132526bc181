import subprocess


def test_it_computes() -> None:
    found = subprocess.run(["/app/main", "12"], capture_output=True, text=True, check=True)
    assert found.stdout == "144\n"


def test_it_is_up_to_date() -> None:
    assert subprocess.run(["make", "-q"], cwd="/app", check=False).returncode == 0
