"""Count distinct numbers with a set of those seen."""

from pathlib import Path


def main() -> None:
    with Path("/app/numbers.txt").open() as lines:
        print(len({int(line) for line in lines}))


if __name__ == "__main__":
    main()
