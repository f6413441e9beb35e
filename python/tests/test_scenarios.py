"""The gallery: each scenario has a description and a question, its files exist, and its sweep runs."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path

import pytest

import runyard
from runyard import scenarios
from runyard.scenarios import Ready

EACH = pytest.mark.parametrize("scenario", scenarios.ALL, ids=lambda scenario: scenario.name)


@EACH
def test_a_scenario_says_what_it_is_about_and_asks(scenario: Ready) -> None:
    assert 2 < len(scenario.title.split()) < 15
    assert scenario.title[0].isupper() and not scenario.title.endswith(".")
    assert len(scenario.about.split()) > 40
    assert "The question" not in scenario.about
    assert "\n * The question: " in scenario.path.read_text(encoding="utf-8")
    assert scenario.question[0].isupper() and scenario.question.endswith("?")
    for text in (scenario.title, scenario.about, scenario.question):
        assert "*" not in text and "  " not in text
    shown = scenario._repr_markdown_()
    assert scenario.title in shown and scenario.about in shown and scenario.question in shown


@EACH
def test_a_scenario_is_a_file_beside_its_sweep(scenario: Ready) -> None:
    file = Path(os.fspath(scenario))
    assert file == scenario.path and file.stem == scenario.sweep.stem == scenario.name
    spec = scenario.sweep.read_text(encoding="utf-8")
    assert f'"scenario": "../scenarios/{scenario.name}.json"' in spec
    assert (scenario.sweep.parent / ".." / "scenarios" / file.name).samefile(file)


def test_all_is_all_that_there_is() -> None:
    names = [scenario.name for scenario in scenarios.ALL]
    gallery = scenarios.web_tier.path.parent.parent
    for kind in ("scenarios", "sweeps"):
        files = sorted(file.stem for file in (gallery / kind).glob("*.json"))
        assert files == sorted(names)
    for scenario in scenarios.ALL:
        attribute = scenario.name.replace("-", "_")
        assert getattr(scenarios, attribute) is scenario
        assert attribute in dir(scenarios) and repr(scenario) == f"runyard.scenarios.{attribute}"


def test_a_scenario_goes_to_another_process_as_its_name() -> None:
    asked = scenarios.tenants.question
    again = pickle.loads(pickle.dumps(scenarios.tenants))
    assert again == scenarios.tenants and again.question == asked


@EACH
def test_a_scenario_is_simulated(scenario: Ready) -> None:
    report = runyard.simulate(scenario, duration="20ms")
    assert json.loads(report.to_json())["scenario"] == scenario.name


def test_a_sweep_answers_the_question() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    answer = runyard.sweep(scenarios.batch_beside_latency.sweep, progress=False)
    rows = pyarrow.table(answer.summary).to_pylist()
    crackles = {row["change"]: row for row in rows if row["metric"] == "missed(chains.period)"}
    # Missed periods of 3,749: one in seven beside SCHED_OTHER or SCHED_BATCH, few beside SCHED_IDLE, none in real time.
    assert crackles["none"]["lo"] > 400 and crackles["encoder SCHED_BATCH"]["lo"] > 400
    assert crackles["encoder SCHED_IDLE"]["hi"] < 10
    assert crackles["sound SCHED_FIFO"]["mean"] == 0
