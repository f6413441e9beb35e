"""One run: its report equals the command's, its tables are Arrow data, and other Python threads continue meanwhile."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pandas
import polars
import pyarrow
import pytest
import runyard
from conftest import without_wall



def test_the_report_is_that_of_the_command(
    scenario: dict[str, Any], command: Any, tmp_path: Path
) -> None:
    file = tmp_path / "small.json"
    file.write_text(json.dumps(scenario))
    options = ["--seed", "7", "--kernel", "6.12", "--set", "scheduler.base_slice_us=1400"]
    said = command("sim", file, *options, "--feature", "NO_RT_PUSH", "--duration", "500ms", "--json")
    report = runyard.simulate(
        file,
        seed=7,
        duration=0.5,
        kernel="6.12",
        features=["NO_RT_PUSH"],
        set={"scheduler.base_slice_us": 1400},
    )
    assert without_wall(report.to_json()) == without_wall(said)
    assert report.to_dict() == json.loads(report.to_json())
    assert (report.scenario, report.seed, report.duration_ns) == ("small", 7, 500_000_000)
    assert "RT_PUSH" not in report.features
    assert report.machine == report.to_dict()["machine"]


def test_the_page_is_that_of_the_command(
    scenario: dict[str, Any], command: Any, tmp_path: Path
) -> None:
    file, page = tmp_path / "small.json", tmp_path / "small.html"
    file.write_text(json.dumps(scenario))
    command("sim", file, "--html", page)
    # A page does not contain the wall-clock time.
    assert runyard.simulate(file).to_html() == page.read_text()


def test_tables_are_taken_by_all(scenario: dict[str, Any]) -> None:
    report = runyard.simulate(scenario)
    tasks = report.to_dict()["tasks"]
    frame = pandas.DataFrame.from_arrow(report.tasks)
    assert list(frame["name"]) == [task["name"] for task in tasks]
    assert list(frame["wakeup_latency_p99_ns"]) == [
        task["wakeup_latency"]["p99_ns"] for task in tasks
    ]
    assert polars.DataFrame(report.cpus)["busy_ns"].sum() == sum(
        cpu["busy_ns"] for cpu in report.to_dict()["cpus"]
    )
    groups = pyarrow.table(report.groups)
    assert groups["path"].to_pylist() == ["/", "/web", "/batch"]
    assert groups["limit_runtime_us"].to_pylist() == [None, None, 30000]
    worst = pyarrow.table(report.worst).to_pylist()
    told = [{"task": task["name"], **it} for task in tasks for it in task["worst"]]
    assert [{key: it[key] for key in row} for it, row in zip(told, worst)] == worst
    assert len(worst) == len(told) > 20
    assert pyarrow.table(report.chains)["name"].to_pylist() == ["request"]
    assert (len(report.cookies), len(report.chains)) == (0, 1)


def test_a_report_shows_itself(scenario: dict[str, Any]) -> None:
    report = runyard.simulate(scenario)
    assert "batch" in str(report) and "runyard.Report" in repr(report)
    assert report._repr_html_().count("<tr>") == 1 + len(scenario["tasks"])


@pytest.mark.parametrize(
    ("change", "line", "said"),
    [
        ({"tasks": {"web": {"run": "soon"}}}, 7, "microseconds"),
        ({"machine": {"cpu": 2}}, 11, 'did you mean "cpus"?'),
        ({"chains": {"c": ["b"]}}, 12, "task"),
    ],
)
def test_a_mistake_has_its_place(change: dict[str, Any], line: int, said: str) -> None:
    with pytest.raises(runyard.ScenarioError, match="<dict>:") as raised:
        runyard.simulate({"global": {"duration": 1}, "tasks": {"a": {"run": 1}}} | change)
    error = raised.value
    assert said in str(error) and said in error.what
    assert error.line == line and error.column is not None
    # The message shows the line, since the text of a dict is not in a file.
    assert str(error).splitlines()[-1].strip() == "^"


def test_what_is_no_scenario_is_told(scenario: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as missing:
        runyard.simulate(tmp_path / "none.json")
    assert missing.value.filename == str(tmp_path / "none.json")
    file = tmp_path / "broken.json"
    file.write_text('{\n "tasks": [}')
    with pytest.raises(runyard.ScenarioError) as broken:
        runyard.simulate(file)
    assert (broken.value.file, broken.value.line) == (str(file), 2)
    with pytest.raises(runyard.ScenarioError, match="did you mean scheduler.base_slice_us") as path:
        runyard.simulate(scenario, set={"scheduler.base_slice": 1})
    assert path.value.line is None
    for wrong in [{"kernel": "7.99"}, {"features": ["NO_SUCH"]}, {"duration": "soon"}]:
        with pytest.raises(ValueError):
            runyard.simulate(scenario, **wrong)
    with pytest.raises(TypeError, match="list of names"):
        runyard.simulate(scenario, features="NO_RT_PUSH")
    with pytest.raises(ValueError):
        runyard.simulate(scenario, duration=float("nan"))


def test_warnings_are_pythons(scenario: dict[str, Any]) -> None:
    scenario["tasks"]["web"]["colour"] = "red"
    with pytest.warns(UserWarning, match="colour") as warned:
        runyard.simulate(scenario)
    assert warned[0].filename == __file__


def test_a_result_has_the_name_of_its_scenario(scenario: dict[str, Any]) -> None:
    named = runyard.Scenario("shop.v2", cpus=1, duration=0.1)
    named.task("a").run(100).sleep(100)
    for source, name in [(scenario, "scenario"), (named, "shop.v2")]:
        report = runyard.simulate(source)
        assert report.scenario == name and name in report._repr_html_()
        assert repr(runyard.compare(source, both={"duration": 0.1}, seeds=2)) == f"<runyard.Comparison of {name} and {name}>"
        swept = runyard.sweep({"scenario": source, "seeds": 1, "duration": 0.1, "metrics": ["machine.switches"]})
        assert f"<title>{name}" in swept.to_html() and "dict>" not in swept.to_html()
    assert [runyard.simulate(it, name="first").scenario for it in (scenario, named)] == ["first", "first"]
    with pytest.raises(TypeError, match="a file has its own"):
        runyard.simulate("first.json", name="first")


def test_the_package_shows_its_interface_only() -> None:
    assert dir(runyard) == sorted(runyard.__all__)


def test_python_goes_on_while_it_simulates(scenario: dict[str, Any]) -> None:
    scenario["global"]["duration"] = 20
    run = threading.Thread(target=runyard.simulate, args=(scenario,))
    run.start()
    steps = 0
    while run.is_alive():
        time.sleep(0.001)
        steps += 1
    assert steps > 20


@pytest.mark.parametrize(
    "call",
    [
        "runyard.simulate(scenario, duration=10**6)",
        "runyard.explain(scenario, 'web', duration=10**6)",
        "runyard.compare(scenario, both={'duration': 10**6})",
        "runyard.sweep({'scenario': scenario, 'duration': 10**6, 'seeds': 4})",
    ],
)
def test_ctrl_c_stops_it(call: str) -> None:
    program = f"""
import runyard
from conftest import SCENARIO as scenario
print("begun", flush=True)
try:
    {call}
except KeyboardInterrupt:
    print("stopped")
"""
    child = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parent,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "begun\n"
    time.sleep(0.5)
    child.send_signal(signal.SIGINT)
    out, _ = child.communicate(timeout=60)
    assert (out, child.returncode) == ("stopped\n", 0)


def test_a_file_is_read_as_a_dict(tmp_path: Path) -> None:
    file = tmp_path / "twice.json"
    file.write_text("{'tasks': {'a': {'run': 100, 'sleep': 50, /* again */ 'run': 200,}}}")
    read = runyard.read(file)
    assert read == {"tasks": {"a": {"run": 100, "sleep": 50, "run2": 200}}}
    reports = [runyard.simulate(it, duration=0.1).to_dict() for it in (file, read)]
    assert [report.pop("scenario") for report in reports] == ["twice", "scenario"]
    assert reports[0]["tasks"] == reports[1]["tasks"]


def test_a_recording_is_replayed(command: Any, tmp_path: Path) -> None:
    recording = tmp_path / "recording.txt"
    recording.write_text(RECORDING)
    read = runyard.import_recording(recording, kernel="6.6")
    file = tmp_path / "replay.json"
    command("import", recording, "--kernel", "6.6", "--out", file)
    same = [runyard.simulate(it).to_dict() for it in (read, file)]
    for report in same:
        del report["scenario"], report["engine"]
    assert same[0] == same[1]
    with pytest.raises(runyard.ScenarioError):
        runyard.import_recording(file)


def test_a_part_of_a_recording_is_replayed(command: Any, tmp_path: Path) -> None:
    recording = tmp_path / "recording.txt"
    recording.write_text(RECORDING)
    file = tmp_path / "part.json"
    command("import", recording, "--from", "5ms", "--tick-hz", "250", "--out", file)
    part = runyard.import_recording(recording, from_=0.005, tick_hz=250)
    assert part == runyard.read(file) != runyard.import_recording(recording, tick_hz=250)
    assert part["machine"]["tick_hz"] == 250
    with pytest.raises(runyard.ScenarioError, match="none of its 6 events is in the wanted part"):
        runyard.import_recording(recording, from_="1s")
    recording.write_text(RECORDING + "x-1 [000] d..2. 100.02: sched_switch: prev_comm\n" * 9)
    with pytest.raises(runyard.ScenarioError, match="--partly"):
        runyard.import_recording(recording)
    with pytest.warns(UserWarning, match="make no sense"):
        assert runyard.import_recording(recording, partly=True)["tasks"]


RECORDING = """\
          <idle>-0     [000] d..2.   100.000000: sched_wakeup: comm=web pid=41 prio=120 target_cpu=000
          <idle>-0     [000] d..3.   100.000010: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=web next_pid=41 next_prio=120
             web-41    [000] d..3.   100.002010: sched_switch: prev_comm=web prev_pid=41 prev_prio=120 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120
          <idle>-0     [000] d..2.   100.010000: sched_wakeup: comm=web pid=41 prio=120 target_cpu=000
          <idle>-0     [000] d..3.   100.010010: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=web next_pid=41 next_prio=120
             web-41    [000] d..3.   100.012010: sched_switch: prev_comm=web prev_pid=41 prev_prio=120 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120
"""


def test_a_part_of_a_run() -> None:
    scenario = {"global": {"duration": 1}, "tasks": {"a": {"run": 100, "sleep": 400}}}
    part = runyard.simulate(scenario, from_="250ms", until=0.75)
    assert (part.from_ns, part.duration_ns) == (250_000_000, 500_000_000)
    warm = runyard.simulate(scenario, warmup=0.25, until=0.75).to_dict()
    warm["engine"]["wall_ns"] = part.engine["wall_ns"]
    assert part.to_dict() == warm


def test_latencies_over_time() -> None:
    tasks = {"a": {"run": 100, "sem_post": "s", "sleep": 900}, "b": {"sem_wait": "s", "run": 50}}
    scenario = {"global": {"duration": 1}, "tasks": tasks, "chains": {"c": ["a", "b"]}}
    report = runyard.simulate(scenario)
    series = pyarrow.table(report.series).to_pylist()
    names = [("task", "a"), ("task", "b"), ("group", "/"), ("chain", "c")]
    assert {(row["kind"], row["name"]) for row in series} == set(names)
    counts = {row["name"]: row["count"] for row in pyarrow.table(report.chains).to_pylist()}
    assert sum(row["count"] for row in series if row["kind"] == "chain") == counts["c"]
    points = pyarrow.table(report.distributions).to_pylist()
    assert sum(row["count"] for row in points if row["name"] == "c") == counts["c"]
