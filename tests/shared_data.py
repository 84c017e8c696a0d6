"""Where the real data is that some tests measure: the folder in SYNTAXLM_DATA, otherwise that beside this checkout.

Without it, those tests are skipped, and pytest says so.
"""

import os
from pathlib import Path

DATA = Path(os.environ.get("SYNTAXLM_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")
