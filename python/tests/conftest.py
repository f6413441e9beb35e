"""What the tests share: the command that the package is compared with, and a small scenario."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

#: Several groups, chains and causes of waits, in a tenth of a second of CPU time.
SCENARIO: dict[str, Any] = {
    "machine": {"cpus": 2},
    "global": {"duration": 1},
    "groups": {"/web": {"latency_nice": -10}, "/batch": {"runtime": 30000, "period": 100000}},
    "chains": {"request": {"tasks": ["web", "database"], "deadline_us": 5000}},
    "tasks": {
        "web": {
            "group": "/web",
            "sleep": {"exponential": 3000},
            "run": {"exponential": 500},
            "send": {"ref": "query", "bytes": 1, "capacity": 64},
        },
        "database": {"group": "/web", "recv": {"ref": "query", "bytes": 1}, "run": 700},
        "batch": {"instance": 3, "group": "/batch", "run": 20000},
        "control": {"policy": "SCHED_FIFO", "priority": 10, "run": 200, "sleep": 4000},
    },
}


@pytest.fixture
def scenario() -> dict[str, Any]:
    """The small scenario, which a test may change."""
    import copy

    return copy.deepcopy(SCENARIO)


@pytest.fixture
def command() -> Any:
    """Runs the command, which `RUNYARD` names; gives what it printed."""
    if "RUNYARD" not in os.environ:
        pytest.fail("RUNYARD names the command, with which the package is compared")

    def run(*arguments: str | Path, code: int = 0) -> str:
        line = [os.environ["RUNYARD"], *map(str, arguments)]
        ran = subprocess.run(line, capture_output=True, text=True)
        assert ran.returncode == code, ran.stderr
        return ran.stdout if code == 0 else ran.stderr

    return run


def without_wall(text: str) -> str:
    """A report without the one figure that differs each time."""
    text, count = re.subn(r'"wall_ns": \d+', '"wall_ns": 0', text)
    assert count == 1
    return text
