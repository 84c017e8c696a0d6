"""python -m syntaxlm: the commands."""

import sys

from syntaxlm.cli import main

sys.exit(main())
