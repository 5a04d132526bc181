import subprocess


def test_installed_module_counts() -> None:
    command = ["/usr/bin/python3", "-m", "wordtool", "one two  three"]
    found = subprocess.run(command, cwd="/", capture_output=True, text=True, check=True)
    assert found.stdout == "3\n"
