"""Sweeps on a real Ray cluster without runyard on its nodes give the same tables, also if a node is killed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
import runyard
from runyard import _ray
from test_sweep import contents, spec


class Nodes:
    """The cluster of ``cluster.py``, started by the Python that `RUNYARD_WORKERS` names. It has Ray, but not runyard."""

    def __init__(self) -> None:
        workers = os.environ.get("RUNYARD_WORKERS")
        if workers is None:
            pytest.fail("RUNYARD_WORKERS is not set: set it to a Python with Ray and without runyard")
        self._process = subprocess.Popen(
            [workers, Path(__file__).parent / "cluster.py"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd="/",
        )
        self.address = self._line()

    def kill_one(self) -> None:
        """Kills a node."""
        assert self._process.stdin is not None
        self._process.stdin.write("kill\n")
        self._process.stdin.flush()
        assert self._line() == "killed"

    def end(self) -> None:
        """Ends the cluster."""
        self._process.communicate()

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the cluster has ended"
        return line.strip()


@pytest.fixture
def nodes() -> Iterator[Nodes]:
    """Starts a cluster and connects this process to it."""
    nodes = Nodes()
    try:
        ray.init(address=nodes.address, log_to_driver=False)
        yield nodes
    finally:
        ray.shutdown()
        nodes.end()


def longer(scenario: dict[str, Any]) -> dict[str, Any]:
    """Returns a sweep that keeps each node busy for some seconds."""
    return spec(scenario) | {"seeds": 40, "duration": "2s"}


def test_the_tables_are_those_of_a_local_sweep_though_a_node_is_killed(
    scenario: dict[str, Any], nodes: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    runyard.sweep(longer(scenario), out=here)
    assert ray.cluster_resources()["CPU"] == 3

    @ray.remote(num_cpus=0.1)
    def has_runyard() -> bool:
        import importlib.util

        return importlib.util.find_spec("runyard") is not None

    assert not any(ray.get([has_runyard.remote() for _ in range(6)]))

    bar: list[int] = []

    def look(_: Any, done: int) -> None:
        bar.append(done)
        if done >= 20 and not any(it < 0 for it in bar):
            bar.append(-1)
            nodes.kill_one()

    monkeypatch.setattr(runyard.Progress, "__call__", look)
    swept = runyard.sweep(longer(scenario), backend="ray", out=there)
    # The node was killed during the sweep.
    assert -1 in bar and bar[bar.index(-1) - 1] < 160 == bar[-1]
    assert contents(there) == contents(here)
    assert swept.failed is None

    # A sweep that began on the cluster continues from the parts in its folder.
    for part in sorted((there / "parts").glob("*.jsonl"))[::2]:
        part.unlink()
    for name in ("runs.parquet", "summary.csv", "index.html"):
        (there / name).unlink()
    runyard.sweep(longer(scenario), backend="ray", out=there, resume=True)
    assert contents(there) == contents(here)


def test_the_command_runs_a_sweep_on_ray(
    scenario: dict[str, Any], nodes: Nodes, command: Any, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import json

    file = tmp_path / "spec.json"
    file.write_text(json.dumps(spec(scenario)))
    monkeypatch.setenv("RAY_ADDRESS", nodes.address)
    monkeypatch.setenv("RUNYARD_PYTHON", sys.executable)
    command("sweep", file, "--backend", "ray", "--out", tmp_path / "there")
    command("sweep", file, "--out", tmp_path / "here")
    assert contents(tmp_path / "there") == contents(tmp_path / "here")
    said = command("sweep", file, "--backend", "ray", "--out", tmp_path / "there", code=2)
    assert "a sweep is there already" in said
    file.write_text("{")
    said = command("sweep", file, "--backend", "ray", "--out", tmp_path / "no", code=2)
    assert "spec.json:1:" in said


def test_a_task_takes_about_a_second() -> None:
    size = _ray._size
    assert size(None, 1000, 2) == 1
    assert size(0.01, 10_000, 2) == 100
    assert size(5.0, 10_000, 2) == 1
    # The last tasks are shorter, so all CPUs end at about the same time.
    assert size(0.01, 40, 2) == 10 and size(0.01, 3, 2) == 1
