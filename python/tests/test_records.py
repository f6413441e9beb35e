"""Traces, logs and checks of a run equal those of the command."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from conftest import without_wall

import runyard


@pytest.fixture
def file(scenario: dict[str, Any], tmp_path: Path) -> Path:
    file = tmp_path / "small.json"
    file.write_text(json.dumps(scenario))
    return file


@pytest.mark.parametrize("name", ["small.pftrace", "small.txt"])
def test_a_trace_is_that_of_the_command(file: Path, name: str, command: Any, tmp_path: Path) -> None:
    theirs, ours = tmp_path / f"command-{name}", tmp_path / name
    command("sim", file, "--seed", "3", "--trace", theirs)
    ours.write_text("an older trace")
    runyard.simulate(file, seed=3, trace=ours)
    assert ours.read_bytes() == theirs.read_bytes()


def test_a_log_is_that_of_the_command(file: Path, command: Any, tmp_path: Path) -> None:
    folders = [tmp_path / "theirs", tmp_path / "ours"]
    for folder in folders:
        folder.mkdir()
    command("sim", file, "--log", folders[0])
    runyard.simulate(file, log=folders[1])
    theirs, ours = ({it.name: it.read_bytes() for it in folder.iterdir()} for folder in folders)
    assert theirs == ours and len(ours) == 6


@pytest.mark.parametrize("check", [True, "full"])
def test_a_check_changes_nothing_and_says_that_it_was_one(file: Path, check: Any, command: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        checked = runyard.simulate(file, check=check, duration=0.1)
    said = command("sim", file, "--check", "--duration", "100ms", "--json")
    assert without_wall(checked.to_json()) == without_wall(said)
    assert checked.violations == []
    assert str(checked).endswith("Invariants: checked, all held.\n")
    assert "not checked" in str(runyard.simulate(file, duration=0.1))


def test_what_cannot_be_written_is_told_before_the_run(file: Path, tmp_path: Path) -> None:
    for_ever = 10**6
    with pytest.raises(ValueError, match=r"ends in \.pftrace or \.txt"):
        runyard.simulate(file, trace=tmp_path / "trace.json", duration=for_ever)
    with pytest.raises(FileNotFoundError) as raised:
        runyard.simulate(file, trace=tmp_path / "none" / "trace.txt", duration=for_ever)
    assert raised.value.filename == str(tmp_path / "none" / "trace.txt")
    with pytest.raises(NotADirectoryError, match="log is a folder that exists"):
        runyard.simulate(file, log=tmp_path / "none", duration=for_ever)
    with pytest.raises(ValueError, match="check is True, False or 'full'"):
        runyard.simulate(file, check="some", duration=for_ever)  # type: ignore[arg-type]
