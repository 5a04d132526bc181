from pathlib import Path


def test_primes() -> None:
    primes = [int(line) for line in Path("/app/primes.txt").read_text().split()]
    assert (len(primes), primes[0], primes[-1]) == (1000, 2, 7919)


def test_digits() -> None:
    assert Path("/logs/artifacts/digits.txt").read_text().strip() == "3803"


def test_that_this_is_not_where_the_agent_worked() -> None:
    assert not Path("/solution/solve.sh").exists()
