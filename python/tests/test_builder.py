"""The builder makes the dict that a user would write by hand, and reports mistakes."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

import runyard


def report(scenario: Any, **keywords: Any) -> str:
    """Returns the report of a run as JSON, without its wall-clock time."""
    text = runyard.simulate(scenario, **keywords).to_json()
    return re.sub(r'"wall_ns": \d+', '"wall_ns": 0', text)


def test_what_is_built_is_the_dict_that_one_would_write() -> None:
    built = runyard.Scenario(
        cpus=2, kernel="6.12", duration=1, features=["NO_RUN_TO_PARITY"], scheduler={"base_slice_us": 1400}
    )
    built.group("/web", weight=2048).group("/batch", runtime=30000, period=100000)
    built.chain("request", ["web", "database"], deadline_us=5000).chain("both", ["web", ("database",)], join="first")
    built.arrivals("cron", every=1000000, jitter=1000, fork="job")
    built.task("job", instances=0, loop=1).run(5000)
    web = built.task("web", group="/web", nice=-5)
    web.sleep({"exponential": 3000}).run({"exponential": 500}).send("query", capacity=64)
    built.task("database", group="/web", cpus=range(2)).recv("query").run(700)
    built.task("batch", instances=3, policy="SCHED_BATCH", group="/batch").run(20000)
    built.task("control", policy="SCHED_FIFO", priority=10).run(200).timer(4000)
    written = {
        "machine": {"cpus": 2, "kernel": "6.12"},
        "scheduler": {"base_slice_us": 1400},
        "features": ["NO_RUN_TO_PARITY"],
        "global": {"duration": 1},
        "groups": {"/web": {"weight": 2048}, "/batch": {"runtime": 30000, "period": 100000}},
        "chains": {
            "request": {"tasks": ["web", "database"], "deadline_us": 5000},
            "both": {"tasks": ["web", ["database"]], "join": "first"},
        },
        "arrivals": {"cron": {"every": 1000000, "jitter": 1000, "fork": "job"}},
        "tasks": {
            "job": {"instance": 0, "loop": 1, "run": 5000},
            "web": {
                "priority": -5,
                "group": "/web",
                "sleep": {"exponential": 3000},
                "run": {"exponential": 500},
                "send": {"ref": "query", "bytes": 1, "capacity": 64},
            },
            "database": {
                "group": "/web",
                "cpus": [0, 1],
                "recv": {"ref": "query", "bytes": 1},
                "run": 700,
            },
            "batch": {"instance": 3, "policy": "SCHED_BATCH", "group": "/batch", "run": 20000},
            "control": {
                "policy": "SCHED_FIFO",
                "priority": 10,
                "run": 200,
                "timer": {"ref": "unique", "period": 4000, "mode": "absolute"},
            },
        },
    }
    assert built == written
    assert report(built) == report(written)


def test_a_step_that_repeats_is_that_step_again() -> None:
    built = runyard.Scenario(cpus=1)
    built["machine"]["costs"] = {"jitter_ns": 0}
    built.task("a", loop=3).run(1000).sleep(500).run(200).run(50)
    assert list(built["tasks"]["a"]) == ["loop", "run", "sleep", "run2", "run3"]
    tasks = json.loads(report(built))["tasks"]
    assert tasks[0]["runtime_ns"] == 3 * 1_250_000


def test_phases_go_on_one_after_the_other() -> None:
    built = runyard.Scenario(cpus=1)
    built["machine"]["costs"] = {"jitter_ns": 0}
    task = built.task("a", loop=1)
    task.phase("busy", loop=10).run(1000)
    task.phase(loop=5).run(200).sleep(100)
    assert list(task["phases"]) == ["busy", "phase2"]
    assert json.loads(report(built))["tasks"][0]["runtime_ns"] == 11_000_000


def test_tasks_hand_each_other_mutexes_and_wake_each_other_up() -> None:
    built = runyard.Scenario(cpus=2)
    built["machine"]["costs"] = {"jitter_ns": 0}
    built.task("sleeper", loop=2).suspend().lock("m").run(100).unlock("m")
    built.task("waker", loop=2, delay=1000).lock("m").run(300).unlock("m").resume("sleeper").sleep(1000)
    tasks = json.loads(report(built))["tasks"]
    assert [task["runtime_ns"] for task in tasks] == [200_000, 600_000]


def test_any_step_of_the_language_may_be_added() -> None:
    built = runyard.Scenario(cpus=2)
    for name, work in (("a", 100), ("b", 700)):
        built.task(name, loop=1).run(work).then("barrier", "together").run(work)
    assert built["tasks"]["a"]["barrier"] == "together"
    slept = json.loads(report(built))["tasks"][0]["sleep_ns"]
    assert slept >= 550_000


def test_a_step_without_a_value_names_its_own_task() -> None:
    built = runyard.Scenario()
    assert built.task("a").suspend()["suspend"] == ""


def test_a_task_is_there_once() -> None:
    built = runyard.Scenario()
    built.task("a").run(1)
    with pytest.raises(ValueError, match="there is a task 'a' already"):
        built.task("a")
    assert built["tasks"]["a"] == {"run": 1}


def test_a_task_has_a_priority_or_a_nice_value() -> None:
    with pytest.raises(ValueError, match="a priority or a nice value"):
        runyard.Scenario().task("a", nice=1, priority=2)


@pytest.mark.parametrize(
    ("policy", "keywords", "what"),
    [
        ("SCHED_FIFO", {"nice": 5}, "a task of SCHED_FIFO has a priority, not a nice value"),
        ("SCHED_RR", {"nice": 0}, "a task of SCHED_RR has a priority"),
        (None, {"priority": 5}, "a task of SCHED_OTHER has a nice value, not a priority"),
        ("SCHED_BATCH", {"priority": 5}, "a task of SCHED_BATCH has a nice value"),
    ],
)
def test_a_policy_has_its_own_kind_of_priority(
    policy: str | None, keywords: dict[str, int], what: str
) -> None:
    built = runyard.Scenario()
    with pytest.raises(ValueError, match=what):
        built.task("a", policy=policy, **keywords)
    assert not built["tasks"]
    built["global"] = {"default_policy": "SCHED_RR"}
    assert built.task("b", priority=5)["priority"] == 5


def test_a_misspelt_word_is_refused_with_the_right_one() -> None:
    built = runyard.Scenario()
    for method, keywords, what in [
        ("task", {"instanses": 3}, r"task\(\) takes no 'instanses'; did you mean 'instances'\?"),
        ("task", {"latency_nise": 3}, "did you mean 'latency_nice'"),
        ("task", {"colour": 3}, "takes no 'colour'; known are instances"),
        ("phase", {"cpu": [1]}, r"phase\(\) takes no 'cpu'; did you mean 'cpus'"),
        ("phase", {"delay": 5}, "takes no 'delay'"),
    ]:
        call = built.task if method == "task" else built.task(what).phase
        with pytest.raises(TypeError, match=what):
            call("a", **keywords)
    with pytest.raises(ValueError, match="no event is called 'slep'; did you mean 'sleep'"):
        built.task("a").then("slep", 10)
    for number, word in enumerate(["timer_slack", "runn", "sleep 1", "Run", ""]):
        with pytest.raises(ValueError, match=f"no event is called '{word}'"):
            built.task(f"b{number}").then(word, 10)
    known = built.task("c", delay=5, **{"dl-runtime": 3000, "run_first": 10}).then("lock_a", "m").then("broadcast", "c").then("mem2", 5)
    assert list(known) == ["delay", "dl-runtime", "run_first", "lock_a", "broadcast", "mem2"]


@pytest.mark.parametrize(
    ("duration", "written"),
    [(2, 2), (2.0, 2), (0.5, "500000us"), ("1.5s", "1.5s")],
)
def test_a_duration_is_any_time(duration: Any, written: Any) -> None:
    built = runyard.Scenario(duration=duration)
    built.task("a").run(100).sleep(100)
    assert built["global"] == {"duration": written}
    assert runyard.simulate(built).duration_ns == (2e9 if written == 2 else 5e8 if duration == 0.5 else 1.5e9)


def test_what_is_missing_is_said_when_it_runs() -> None:
    with pytest.raises(runyard.ScenarioError):
        runyard.simulate(runyard.Scenario(cpus=1), duration=1)
    built = runyard.Scenario(cpus=1)
    task = built.task("a")
    with pytest.raises(runyard.ScenarioError, match="needs an event"):
        runyard.simulate(built, duration=1)
    task.run(100)
    built.chain("c", ["a", "nobody"])
    with pytest.raises(runyard.ScenarioError, match="nobody"):
        runyard.simulate(built, duration=1)


@pytest.mark.parametrize(
    ("keywords", "what"),
    [
        ({"cpus": 0}, "cpus"),
        ({"kernel": "5.4"}, "5.4"),
        ({"features": ["EEVDFF"]}, "EEVDFF"),
        ({"machine": {"cpu": 2}}, 'did you mean "cpus"'),
        ({"scheduler": {"base_slice": 1400}}, "base_slice_us"),
    ],
)
def test_a_mistake_has_its_place(keywords: dict[str, Any], what: str) -> None:
    built = runyard.Scenario(**keywords)
    built.task("a").run(100)
    with pytest.raises(runyard.ScenarioError) as raised:
        runyard.simulate(built, duration=1)
    assert what in str(raised.value)
    assert raised.value.line is not None and raised.value.column is not None
    # The writer of a dict has not seen its lines, so the message shows the line with the mistake.
    assert str(raised.value).splitlines()[-1].strip() == "^"


def test_what_has_no_form_in_a_scenario_is_refused() -> None:
    for value in (object(), b"text"):
        built = runyard.Scenario()
        built.task("a").then("run", value)
        with pytest.raises(TypeError, match="no form in a scenario"):
            runyard.simulate(built, duration=1)


def test_numbers_of_numpy_are_numbers() -> None:
    numpy = pytest.importorskip("numpy")
    plain, other = runyard.Scenario(cpus=1), runyard.Scenario(cpus=numpy.int64(1))
    plain.task("a", cpus=[0]).run({"uniform": [100, 200]}).sleep(50)
    other.task("a", cpus=numpy.arange(1)).run({"uniform": numpy.array([100, 200])}).sleep(numpy.array(50))
    assert report(plain, duration=0.1) == report(other, duration=numpy.float64(0.1))
