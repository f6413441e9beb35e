"""A table is a sequence of rows, and becomes a frame of pandas or polars."""

from __future__ import annotations

import pickle
import sys
from typing import Any

import pyarrow
import pytest

import runyard


@pytest.fixture
def tasks(scenario: dict[str, Any]) -> runyard.Table:
    return runyard.simulate(scenario).tasks


def test_rows_are_dicts(tasks: runyard.Table) -> None:
    rows = pyarrow.table(tasks).to_pylist()
    assert list(tasks) == rows and len(tasks) == len(rows) == 6
    assert tasks[0] == rows[0] and tasks[-1] == rows[-1] == tasks[5]
    assert tasks[0]["name"] == "web" and rows[1] in tasks
    assert [row["name"] for row in reversed(tasks)][0] == "control"
    for number in (6, -7):
        with pytest.raises(IndexError, match=f"row {number} of a table of 6 rows"):
            tasks[number]
    with pytest.raises(TypeError, match="the number of a row, a slice, or the name of a column"):
        tasks[1.5]  # type: ignore[call-overload]


@pytest.mark.parametrize(
    "part", [slice(1, 3), slice(None), slice(-2, None), slice(None, None, -2), slice(9, 20)]
)
def test_a_slice_is_a_table(tasks: runyard.Table, part: slice) -> None:
    assert list(tasks[part]) == list(tasks)[part]
    assert pyarrow.table(tasks[part]).schema == pyarrow.table(tasks).schema


def test_a_notebook_says_how_many_rows_are_not_shown(scenario: dict[str, Any]) -> None:
    spec = {"scenario": scenario, "seeds": 40, "duration": 0.01, "metrics": ["share(tasks.web)"]}
    runs = runyard.sweep(spec).runs
    shown = runs._repr_html_()
    assert f"and {len(runs) - shown.count('<tr>') + 1} more rows" in shown and len(runs) > 100


def test_a_column_has_a_name(tasks: runyard.Table) -> None:
    assert tasks["name"] == ["web", "database", "batch-0", "batch-1", "batch-2", "control"]
    with pytest.raises(KeyError, match='did you mean "name"'):
        tasks["nam"]


def test_frames_have_the_rows(scenario: dict[str, Any]) -> None:
    report = runyard.simulate(scenario)
    frame = report.tasks.to_pandas()
    assert list(frame.columns) == report.tasks.column_names
    assert list(frame["wakeup_latency_p99_ns"]) == report.tasks["wakeup_latency_p99_ns"]
    assert report.tasks.to_polars().to_dicts() == list(report.tasks)
    assert report.worst.to_polars().to_dicts() == list(report.worst)


@pytest.mark.parametrize(
    ("method", "package"), [("to_pandas", "pandas"), ("to_pandas", "pyarrow"), ("to_polars", "polars")]
)
def test_a_missing_package_is_named(
    tasks: runyard.Table, method: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=f"{method} needs {package}: pip install"):
        getattr(tasks, method)()


def test_every_table_can_be_pickled(scenario: dict[str, Any]) -> None:
    report = runyard.simulate(scenario)
    swept = runyard.sweep({"scenario": scenario, "seeds": 2, "duration": 0.1, "metrics": ["share(tasks.web)"]})
    names = ("tasks", "cpus", "groups", "chains", "cookies", "worst", "series", "distributions")
    for table in [*(getattr(report, name) for name in names), swept.runs, swept.summary]:
        again = pickle.loads(pickle.dumps(table))
        assert pyarrow.table(again).combine_chunks() == pyarrow.table(table).combine_chunks()
        assert pyarrow.table(again).schema == pyarrow.table(table).schema


def test_any_quantile_is_known(scenario: dict[str, Any]) -> None:
    report = runyard.simulate(scenario)
    web, chain = report.tasks[0], report.chains[0]
    for q, name in [(0, "min"), (0.5, "p50"), (0.99, "p99"), (0.999, "p999"), (1, "max")]:
        assert report.quantile("web", q) == web[f"wakeup_latency_{name}_ns"], name
        assert report.quantile("request", q) == chain[f"latency_{name}_ns"], name
    spec = {"scenario": scenario, "seeds": [1], "metrics": ["p97.5(tasks.batch.wakeup_latency)"]}
    assert report.quantile("batch", 0.975) == runyard.sweep(spec).summary[0]["mean"]
    assert report.quantile("batch-1", 1) == report.tasks[3]["wakeup_latency_max_ns"]
    with pytest.raises(KeyError, match='did you mean "web"'):
        report.quantile("wep", 0.5)
    for q in (-0.1, 95, float("nan")):
        with pytest.raises(ValueError, match="a part from 0 to 1"):
            report.quantile("web", q)
