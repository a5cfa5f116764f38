"""`python -m takeback`: the command line."""

import sys

from takeback.cli import main

if __name__ == "__main__":
    sys.exit(main())
