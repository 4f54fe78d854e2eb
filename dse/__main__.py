"""`python -m dse` is the command `dse`."""

import sys

from .cli import main

sys.exit(main())
