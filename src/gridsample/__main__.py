"""`python -m gridsample`: the same as the command `gridsample`."""

import sys

from gridsample.cli import main

if __name__ == "__main__":
    sys.exit(main())
