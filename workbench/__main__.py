"""``python -m workbench``: the command line, wherever its script is not on the path."""

import sys

from workbench.cli import main

if __name__ == "__main__":
    sys.exit(main())
