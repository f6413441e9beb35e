"""The Python code of the user pages runs as a new user runs it: each page in one session."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import ray

ROOT = Path(__file__).resolve().parents[2]

#: The replacements that shorten the runs of a page; the intervals become wider.
FEWER = {'"seeds": 10': '"seeds": 3', '"duration": 5': '"duration": 1', '"duration": "5s"': '"duration": "1s"'}


def session(page: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Runs the blocks of a page in a new folder and returns the variables that they define."""
    text = (ROOT / page).read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert blocks, page
    monkeypatch.chdir(folder)
    monkeypatch.setenv("MPLBACKEND", "agg")
    (folder / "scenarios").symlink_to(ROOT / "scenarios")
    (folder / "sweeps").mkdir()
    for file in (ROOT / "sweeps").glob("*.json"):
        (folder / "sweeps" / file.name).write_text(with_fewer_runs(file.read_text()))
    names: dict[str, Any] = {}
    for block in blocks:
        exec(with_fewer_runs(block), names)
    return names


def with_fewer_runs(text: str) -> str:
    """A program or a specification with fewer seeds and shorter runs."""
    for all_runs, few_runs in FEWER.items():
        text = text.replace(all_runs, few_runs)
    return text


def test_the_readme_draws_its_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = session("python/README.md", tmp_path, monkeypatch)
    assert (tmp_path / "p99.png").read_bytes().startswith(b"\x89PNG")
    p99 = names["p99"]
    assert list(p99.index) == [700, 1400, 2800, 5600]
    assert (p99["lo"] < p99["mean"]).all() and (p99["mean"] < p99["hi"]).all()


def test_the_first_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = session("docs/start/notebook.md", tmp_path, monkeypatch)
    assert 1_200 < names["waits"].loc["frame", "nice 0"] < 1_300
    assert list(names["summary"].index) == [0, 5, 10, 19]


def test_the_guide_sweeps_on_a_cluster_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        session("docs/guides/ray.md", tmp_path, monkeypatch)
    finally:
        ray.shutdown()
    assert (tmp_path / "web-tier" / "summary.csv").exists()
