"""Arguments of a wrong type are refused by name, before a run begins."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

import runyard

SCENARIO = {"machine": {"cpus": 1}, "tasks": {"a": {"run": 100, "sleep": 100}}}


@pytest.mark.parametrize(
    ("keywords", "kind", "what"),
    [
        ({"kernel": 6.12}, TypeError, "kernel is a name, as '6.12', not 6.12"),
        ({"features": "EEVDF"}, TypeError, r"features is a list of names, as \['EEVDF'\]"),
        ({"duration": -1}, ValueError, "not -1"),
        ({"duration": float("nan")}, ValueError, "not nan"),
        ({"duration": datetime.timedelta(seconds=1)}, TypeError, "a time is seconds, or a text"),
        ({"duration": "ten"}, ValueError, "as 1.5s"),
        ({"from_": 0.01}, runyard.ScenarioError, "from must be before it"),
        ({"until": 0.02}, runyard.ScenarioError, "beyond the duration"),
        ({"from_": 0, "warmup": 0}, TypeError, "one of both is enough"),
        ({"set": {"tasks.a.run": b"1"}}, TypeError, "no form in a scenario"),
        ({"set": {"tasks.b.run": 1}}, runyard.ScenarioError, "did you mean tasks.a.run"),
    ],
)
def test_a_run(keywords: dict[str, Any], kind: type[Exception], what: str) -> None:
    with pytest.raises(kind, match=what):
        runyard.simulate(SCENARIO, **{"duration": 0.01, **keywords})


@pytest.mark.parametrize("side", ["both", "only_before", "only_after"])
@pytest.mark.parametrize(
    ("keywords", "what"),
    [
        ({"sets": {}}, "runs that are compared take duration, features, from_, kernel, set, until, warmup, not 'sets'"),
        ({"seed": 1}, "not 'seed'"),
        ({"features": "EEVDF"}, r"features is a list of names, as \['EEVDF'\]"),
    ],
)
def test_a_side_of_a_comparison(side: str, keywords: dict[str, Any], what: str) -> None:
    sides: dict[str, Any] = {side: keywords}
    with pytest.raises(TypeError, match=what):
        runyard.compare(SCENARIO, seeds=2, **sides)
