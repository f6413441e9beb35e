"""The README's program, as a new user has it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest


def test_the_readme_draws_its_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    readme = (Path(__file__).parents[1] / "README.md").read_text()
    (program,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    # Fewer seeds say the same with wider intervals.
    assert '"seeds": 10' in program
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    names: dict[str, object] = {}
    exec(program.replace('"seeds": 10', '"seeds": 3'), names)
    assert (tmp_path / "p99.png").read_bytes().startswith(b"\x89PNG")
    p99 = names["p99"]
    assert list(p99.index) == [700, 1400, 2800, 5600]
    assert (p99["lo"] < p99["mean"]).all() and (p99["mean"] < p99["hi"]).all()
