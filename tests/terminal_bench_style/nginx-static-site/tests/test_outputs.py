from urllib.request import urlopen


def test_page_and_header() -> None:
    with urlopen("http://127.0.0.1:8080/", timeout=10) as answer:
        assert answer.read() == b"<h1>It is served</h1>\n"
        assert answer.headers["X-Served-By"] == "infranoise"
