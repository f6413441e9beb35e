"""Sweeps, comparisons and explanations equal those of the command, to the byte."""

from __future__ import annotations

import json
import threading
import zlib
from pathlib import Path
from typing import Any

import pandas
import pyarrow
import pyarrow.parquet
import pytest
import runyard

#: The files that a sweep writes.
FILES = ["runs.parquet", "summary.csv", "index.html"]


def spec(scenario: Any) -> dict[str, Any]:
    """Returns a specification with a few short points."""
    return {
        "scenario": scenario,
        "set": {"scheduler.base_slice_us": [700, 3000], "groups./web.latency_nice": [0, -20]},
        "kernel": ["6.6 + founding"],
        "seeds": 3,
        "duration": "200ms",
        "metrics": ["p99(chains.request.latency)", "share(tasks.batch)"],
    }


def contents(folder: Path) -> list[bytes]:
    """Returns the contents of the files of a sweep."""
    return [(folder / name).read_bytes() for name in FILES]


def test_a_sweep_is_that_of_the_command(
    scenario: dict[str, Any], command: Any, tmp_path: Path
) -> None:
    (tmp_path / "small.json").write_text(json.dumps(scenario))
    file = tmp_path / "spec.json"
    file.write_text(json.dumps(spec("small.json")))
    command("sweep", file, "--out", tmp_path / "command")
    swept = runyard.sweep(file, out=tmp_path / "package", jobs=2)
    assert contents(tmp_path / "package") == contents(tmp_path / "command")
    assert swept.to_html().encode() == contents(tmp_path / "command")[2]
    runs = pyarrow.table(swept.runs)
    assert runs.equals(pyarrow.parquet.read_table(tmp_path / "command" / "runs.parquet"))
    written = pandas.read_csv(tmp_path / "command" / "summary.csv")
    pandas.testing.assert_frame_equal(pandas.DataFrame.from_arrow(swept.summary), written)
    assert swept.failed is None
    assert repr(swept) == "<runyard.Sweep: 12 runs, 4 points>"


def test_a_sweep_goes_on_where_it_was_stopped(scenario: dict[str, Any], tmp_path: Path) -> None:
    whole, twice = tmp_path / "whole", tmp_path / "twice"
    runyard.sweep(spec(scenario), out=whole)
    with pytest.raises(ValueError, match="a sweep is there already"):
        runyard.sweep(spec(scenario), out=whole)
    folder = runyard._runyard.SweepFolder(plan(scenario), twice, False)
    assert folder.missing() == list(range(12))
    assert folder.take(plan(scenario).run([3, 0])) == 2
    runyard.sweep(spec(scenario), out=twice, resume=True)
    assert contents(twice) == contents(whole)
    other = spec(scenario) | {"seeds": 4}
    with pytest.raises(ValueError, match="another text"):
        runyard.sweep(other, out=twice, resume=True)
    with pytest.raises(ValueError, match="folder"):
        runyard.sweep(spec(scenario), resume=True)


def plan(scenario: dict[str, Any]) -> runyard.Plan:
    """Returns the plan of a sweep."""
    return runyard.Plan(runyard._source(spec(scenario)))


def test_a_plan_travels(scenario: dict[str, Any], tmp_path: Path) -> None:
    here = plan(scenario)
    there = runyard.Plan.of_texts(tuple(here.texts()))
    assert (there.runs, there.points, there.columns) == (12, 4, here.columns)
    assert there.metrics == here.metrics == spec(scenario)["metrics"]
    assert there.run([5, 7]) == here.run([5, 7])
    # The results travel as deflated JSON.
    text = zlib.decompress(here.run([5, 7]), wbits=-zlib.MAX_WBITS).decode()
    first, end = json.JSONDecoder().raw_decode(text)
    second = json.loads(text[end:])
    assert [first[0], second[0]] == [5, 7]
    with pytest.raises(ValueError, match="beyond"):
        here.run([12])
    with pytest.raises(ValueError, match="no runs of a sweep"):
        runyard._runyard.SweepFolder(here, tmp_path, False).take(b"what is this?")


def test_a_bar_is_told_of_all_runs(
    scenario: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    import tqdm.auto

    seen: list[tuple[int, int]] = []

    class Bar:
        def __init__(self, total: int, **_: Any) -> None:
            self.n, self.total = 0, total

        def update(self, more: int) -> None:
            self.n += more
            seen.append((self.n, self.total))

        def close(self) -> None:
            seen.append((-1, self.total))

    monkeypatch.setattr(tqdm.auto, "tqdm", Bar)
    runyard.sweep(spec(scenario), progress=True)
    assert seen[-2:] == [(12, 12), (-1, 12)]
    seen.clear()
    runyard.sweep(spec(scenario), progress=False)
    assert not seen


def test_mistakes_in_a_specification(scenario: dict[str, Any]) -> None:
    with pytest.raises(runyard.ScenarioError, match='did you mean "seeds"') as raised:
        runyard.sweep({"scenario": scenario, "seed": 3})
    assert raised.value.line is not None
    with pytest.raises(runyard.ScenarioError, match="no-such.json"):
        runyard.sweep({"scenario": "no-such.json"})
    with pytest.raises(ValueError, match="'local' or 'ray'"):
        runyard.sweep(spec(scenario), backend="cloud")


def test_two_sweeps_at_once_do_not_wait(scenario: dict[str, Any]) -> None:
    swept: list[runyard.Sweep] = []
    threads = [
        threading.Thread(target=lambda: swept.append(runyard.sweep(spec(scenario), jobs=1)))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert pyarrow.table(swept[0].runs).equals(pyarrow.table(swept[1].runs))


def test_an_explanation_is_that_of_the_command(
    scenario: dict[str, Any], command: Any, tmp_path: Path
) -> None:
    file = tmp_path / "small.json"
    file.write_text(json.dumps(scenario))
    told = runyard.explain(file, "web", at="300ms")
    assert str(told) == command("explain", file, "--task", "web", "--at", "300ms")
    assert told.to_json() == command("explain", file, "--task", "web", "--at", "300ms", "--json")
    assert told.task == "web" and told.latency_ns == told.to_dict()["worst"]["latency_ns"]
    assert told.parts and told.cause in {part["cause"] for part in told.parts}
    chain = runyard.explain(file, chain="request")
    assert str(chain) == command("explain", file, "--chain", "request")
    with pytest.raises(ValueError, match="database"):
        runyard.explain(file, "databse")
    with pytest.raises(TypeError):
        runyard.explain(file)


def test_a_comparison_is_that_of_the_command(
    scenario: dict[str, Any], command: Any, tmp_path: Path
) -> None:
    file, page = tmp_path / "small.json", tmp_path / "page.html"
    file.write_text(json.dumps(scenario))
    after = ["--after", "--set groups./batch.runtime=60000"]
    both = ["--both", "--duration 300ms"]
    said = command("compare", file, "--seeds", "14", *both, *after, "--html", page)
    compared = runyard.compare(
        file, seeds=14, both={"duration": "300ms"}, only_after={"set": {"groups./batch.runtime": 60000}}
    )
    assert str(compared) == said
    assert compared.to_html() == page.read_text()
    changes = pandas.DataFrame.from_arrow(compared.changes)
    batch = changes[(changes["kind"] == "task") & (changes["name"] == "batch")]
    runtime = batch[batch["figure"] == "runtime"].iloc[0]
    assert runtime["lo"] > 0
    judged = pandas.DataFrame.from_arrow(compared.judged).set_index("metric")
    assert judged.loc["share(tasks.batch)", "verdict"] == "change"
    assert json.loads(compared.to_json())["judged"][0]["metric"] == judged.index[0]
    reports = [runyard.simulate(file, seed=seed) for seed in (1, 2)]
    one = runyard.compare(*reports)
    assert pandas.DataFrame.from_arrow(one.judged).empty
    with pytest.raises(TypeError):
        runyard.compare(reports[0], file)
    with pytest.raises(ValueError, match="seeds"):
        runyard.compare(file, seeds=0)
