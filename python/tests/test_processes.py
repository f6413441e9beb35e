"""Results travel between processes: what comes back equals what a run in this process gives."""

from __future__ import annotations

import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import joblib
import pytest

import runyard
from conftest import SCENARIO, without_wall


def run(seed: int) -> runyard.Report:
    """A run in another process."""
    return runyard.simulate(SCENARIO, seed=seed, duration=0.2)


def with_mistake(_: int) -> None:
    runyard.simulate({"tasks": {"a": {"run": "soon"}}}, duration=1)


@pytest.fixture(scope="module")
def pool() -> Any:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


def test_runs_in_a_pool_of_processes(pool: Any) -> None:
    for seed, report in zip(range(1, 4), pool.map(run, range(1, 4))):
        own = run(seed)
        assert without_wall(report.to_json()) == without_wall(own.to_json())
        assert report.to_html() == own.to_html()
        assert report.quantile("web", 0.95) == own.quantile("web", 0.95)


def test_a_mistake_comes_back_with_its_place(pool: Any) -> None:
    with pytest.raises(runyard.ScenarioError, match="microseconds") as raised:
        pool.submit(with_mistake, 0).result()
    assert (raised.value.file, raised.value.line) == ("<dict>", 4)


def test_runs_of_joblib() -> None:
    reports = joblib.Parallel(n_jobs=2)(joblib.delayed(run)(seed) for seed in range(1, 4))
    assert [report.seed for report in reports] == [1, 2, 3]
    assert without_wall(reports[2].to_json()) == without_wall(run(3).to_json())


def test_each_result_can_be_pickled(scenario: dict[str, Any]) -> None:
    short = {"duration": 0.2}
    report = runyard.simulate(scenario, **short)
    told = runyard.explain(scenario, "web", **short)
    changed = {"set": {"tasks.batch.policy": "SCHED_IDLE"}}
    compared = runyard.compare(scenario, both=short, only_after=changed, seeds=6)
    swept = runyard.sweep({"scenario": scenario, "seeds": 2, "duration": 0.1, "metrics": ["share(tasks.web)"]})
    for result in (report, told, compared, swept):
        again = pickle.loads(pickle.dumps(result))
        assert (repr(again), str(again)) == (repr(result), str(result))
        assert again._repr_html_() == result._repr_html_()
        for view in ("to_json", "to_html", "to_dict"):
            if hasattr(result, view):
                assert getattr(again, view)() == getattr(result, view)(), view
    again = pickle.loads(pickle.dumps(compared))
    assert list(again.judged) == list(compared.judged)
    assert list(again.changes) == list(compared.changes)
    assert list(pickle.loads(pickle.dumps(swept)).runs) == list(swept.runs)
    assert (told.task, told.latency_ns) == ("web", told.to_dict()["worst"]["latency_ns"])


def test_a_built_scenario_can_be_pickled() -> None:
    built = runyard.Scenario("shop", cpus=1)
    built.task("a").run(100).sleep(50)
    again = pickle.loads(pickle.dumps(built))
    assert again == built and again.name == "shop"
    again["tasks"]["a"].run(20)
    assert list(again["tasks"]["a"]) == ["run", "sleep", "run2"]
