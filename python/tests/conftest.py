"""The fixtures that tests share: the command that the package is compared with, and a small scenario."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

#: A scenario with several groups, chains and causes of waits, simulated in 0.1 s of CPU time.
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
    """Returns a copy of the small scenario, which a test may change."""
    import copy

    return copy.deepcopy(SCENARIO)


@pytest.fixture
def command() -> Any:
    """Returns a function that runs the command named by `RUNYARD` and returns its output."""
    if "RUNYARD" not in os.environ:
        pytest.fail("RUNYARD is not set: set it to the path of the command")

    def run(*arguments: str | Path, code: int = 0) -> str:
        line = [os.environ["RUNYARD"], *map(str, arguments)]
        ran = subprocess.run(line, capture_output=True, text=True)
        assert ran.returncode == code, ran.stderr
        return ran.stdout if code == 0 else ran.stderr

    return run


def without_wall(text: str) -> str:
    """Returns a report without its wall-clock time, the only figure that differs between runs."""
    text, count = re.subn(r'"wall_ns": \d+', '"wall_ns": 0', text)
    assert count == 1
    return text
