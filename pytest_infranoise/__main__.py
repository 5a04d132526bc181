"""The command line: `infranoise`, also as `python -m pytest_infranoise`."""

import sys

from pytest_infranoise.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
