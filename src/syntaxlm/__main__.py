"""python -m syntaxlm: the commands."""

import sys

from syntaxlm.app.cli import main

sys.exit(main())
