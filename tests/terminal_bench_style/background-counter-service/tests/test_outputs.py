from urllib.request import urlopen


def ask() -> int:
    with urlopen("http://127.0.0.1:9000/", timeout=10) as answer:
        return int(answer.read())


def test_it_counts() -> None:
    first = ask()
    assert first >= 1
    assert ask() == first + 1
