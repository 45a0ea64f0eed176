"""`gtpo-lit` with a fault: ``python -m benchmarks.kills fit ...``, told by the environment.

GTPO_LIT_KILL is what `faults.install` takes. The processes that Lightning starts run this module,
too.
"""

from __future__ import annotations

import os

from benchmarks.kills.faults import install
from benchmarks.kills.job import KILL

if __name__ == "__main__":
    if os.environ.get(KILL):
        install(os.environ[KILL])
    from gtpo_lit.cli import main

    main()
