"""Whole texts of pages, charts and reports, as golden/texts holds them: a change of a sentence is one edit, seen as a diff.

`python -m tests.texts` runs the tests that compare with them, and writes what differs again.
"""

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parent
RENEW = "CLASSWISE_RENEW_TEXTS"


def check(name: str, *texts: object) -> None:
    """Compare texts, one below the other, with the golden ones of that name."""
    path, now = TESTS / "golden" / "texts" / f"{name}.txt", "\n".join(map(str, texts)) + "\n"
    if RENEW in os.environ:
        path.parent.mkdir(exist_ok=True)
        path.write_text(now)
    assert now == path.read_text()


if __name__ == "__main__":
    users = [str(path) for path in TESTS.rglob("test_*.py") if "texts.check(" in path.read_text()]
    sys.exit(subprocess.run([sys.executable, "-m", "pytest", *users], env=os.environ | {RENEW: "1"}, check=False).returncode)
