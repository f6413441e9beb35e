"""Linux's scheduling policies, simulated: scenarios, sweeps with statistics, and why a task was late.

A scenario is a file in rt-app's language, a dict of the same form, or a :class:`Scenario` built step by step:

>>> import runyard
>>> scenario = {
...     "machine": {"cpus": 1},
...     "tasks": {"web": {"run": 2000, "sleep": 1000}, "batch": {"run": 1000}},
... }
>>> report = runyard.simulate(scenario, duration=1)
>>> report.machine["cpus"]
1

Tables (:class:`Table`) are Arrow data: ``report.tasks.to_pandas()``, ``report.tasks.to_polars()``, and
``pyarrow.table(report.tasks)``, which copies nothing. They are sequences of rows, too: ``report.tasks[0]["name"]``.

Results can be pickled, so :func:`simulate` works in the processes of ``multiprocessing``, ``concurrent.futures`` and
``joblib``. :func:`sweep` uses all CPUs without them.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Union

from . import _runyard, scenarios
from ._builder import Phase, Scenario, Task
from ._progress import Progress
from ._runyard import (
    Comparison,
    Explanation,
    Plan,
    Report,
    ScenarioError,
    Sweep,
    SweepFolder,
    Table,
    __version__,
)
from ._times import Duration, span

__all__ = [
    "Comparison",
    "Explanation",
    "Phase",
    "Plan",
    "Report",
    "Scenario",
    "ScenarioError",
    "Sweep",
    "Table",
    "Task",
    "__version__",
    "compare",
    "explain",
    "import_recording",
    "read",
    "scenarios",
    "simulate",
    "sweep",
]

#: The name of a file, or the content of such a file as a dict.
Source = Union[str, "os.PathLike[str]", Mapping[str, Any]]


def __dir__() -> list[str]:
    return sorted(__all__)


def simulate(
    scenario: Source,
    *,
    name: str | None = None,
    seed: int = 1,
    duration: Duration | None = None,
    from_: Duration | None = None,
    until: Duration | None = None,
    warmup: Duration | None = None,
    features: Iterable[str] = (),
    kernel: str | None = None,
    set: Mapping[str, Any] | None = None,
    trace: str | os.PathLike[str] | None = None,
    log: str | os.PathLike[str] | None = None,
    check: bool | Literal["full"] = False,
) -> Report:
    """Runs a scenario in virtual time, on simulated CPUs.

    The report equals that of the command ``runyard sim``. The same scenario, seed and arguments give the same bytes on
    every machine, apart from the wall-clock time.

    :param scenario: a file, or a dict.
    :param name: the name of a dict in the report.
    :param seed: the seed from which all random draws follow.
    :param duration: the length of the run, instead of the scenario's.
    :param from_: the moment from which on the report counts. What is before takes place all the same.
    :param until: the moment at which the run and the report end.
    :param warmup: another name of ``from_``.
    :param features: names of features to switch on, or off with ``NO_`` before the name.
    :param kernel: the kernel whose rules the machine follows, as ``"6.12"``.
    :param set: values to replace, by path, as ``{"scheduler.base_slice_us": 1400}``.
    :param trace: a file for a trace of the run: ``.pftrace`` for Perfetto, ``.txt`` for viewers of ftrace.
    :param log: an existing folder for rt-app's log of each task.
    :param check: verify the invariants after each event that concerns them, or all of them with ``"full"``. A broken one is
        a warning, and ``Report.violations`` has all.
    :raises ScenarioError: if the scenario has a mistake; the error names the place.
    :raises OSError: if a file cannot be read or written.
    :raises KeyboardInterrupt: on Ctrl-C.
    """
    options = _options(duration, features, kernel, set, from_=from_, until=until, warmup=warmup)
    if check not in (True, False, "full"):
        raise ValueError(f"check is True, False or 'full', not {check!r}")
    wanted = {
        "trace": None if trace is None else os.fspath(trace),
        "log": None if log is None else os.fspath(log),
        "check": check if isinstance(check, str) else "touched" if check else None,
    }
    if name is not None and not isinstance(scenario, Mapping):
        raise TypeError("name is for a scenario that is a dict: a file has its own")
    return _runyard.simulate(_source(scenario, name), seed, options, wanted)


def read(file: str | os.PathLike[str]) -> dict[str, Any]:
    """Reads a file in rt-app's language as a dict, which may be changed.

    Comments are left out. An event that repeats has a number behind its name from the second time, as ``run2``. The
    language reads that as the same event.

    :raises ScenarioError: if the file is not in the JSON of scenarios.
    """
    return _runyard.read(os.fspath(file))


def import_recording(
    file: str | os.PathLike[str],
    *,
    kernel: str | None = None,
    snapshot: str | os.PathLike[str] | None = None,
    deadline_as_fifo: bool = False,
    tick_hz: int | None = None,
    partly: bool = False,
    from_: Duration | None = None,
    until: Duration | None = None,
) -> dict[str, Any]:
    """Converts a recording of a real machine into a scenario: of perf, trace-cmd, ftrace, systrace or Perfetto.

    :param kernel: the kernel whose rules the replay follows, instead of the recorded one.
    :param snapshot: a file with the task groups, policies and CPUs of the recorded tasks, which ``snapshot.sh`` makes.
    :param deadline_as_fifo: replace SCHED_DEADLINE by SCHED_FIFO with priority 99; otherwise such tasks are refused.
    :param tick_hz: the ticks a second of the recorded machine, instead of those that the recording shows.
    :param partly: take a recording of which less than half of the scheduler's lines make sense, or a trace that breaks off.
    :param from_: the moment from which on the recording is taken, counted from its first event of the scheduler.
    :param until: the moment up to which it is taken.
    :raises ScenarioError: if the file is not such a recording.
    """
    asked = {
        "kernel": kernel,
        "snapshot": None if snapshot is None else os.fspath(snapshot),
        "deadline_as_fifo": deadline_as_fifo,
        "tick_hz": tick_hz,
        "partly": partly,
        "from_": span(from_),
        "until": span(until),
    }
    return _runyard.import_recording(os.fspath(file), asked)


def explain(
    scenario: Source,
    task: str | None = None,
    *,
    chain: str | None = None,
    at: Duration | None = None,
    seed: int = 1,
    duration: Duration | None = None,
    features: Iterable[str] = (),
    kernel: str | None = None,
    set: Mapping[str, Any] | None = None,
) -> Explanation:
    """Explains why a task waited: all its waits by cause, and its longest wait, or the wait nearest to ``at``.

    >>> import runyard
    >>> scenario = runyard.Scenario(cpus=1, duration=1)
    >>> web = scenario.task("web").run(2000).sleep(1000)
    >>> batch = scenario.task("batch").run(1000)
    >>> why = runyard.explain(scenario, "web")
    >>> why.task, why.cause
    ('web', 'important')

    :param task: a task, or a thread with all its instances.
    :param chain: a chain instead of a task; its slowest token is explained.
    :param at: a moment, counted from the beginning of the run.
    :raises ScenarioError: as :func:`simulate`.
    :raises ValueError: if there is no such task or chain, or if it has nothing to explain.
    """
    if (task is None) == (chain is None):
        raise TypeError("explain takes either a task or a chain")
    asked = {"task": task, "chain": chain, "at": span(at)}
    options = _options(duration, features, kernel, set)
    return _runyard.explain(_source(scenario), seed, options, asked)


def compare(
    before: Source | Report,
    after: Source | Report | None = None,
    *,
    seeds: int = 20,
    metrics: Sequence[str] = (),
    both: Mapping[str, Any] | None = None,
    only_before: Mapping[str, Any] | None = None,
    only_after: Mapping[str, Any] | None = None,
    jobs: int | None = None,
    progress: bool | None = None,
) -> Comparison:
    """Compares two scenarios with the same seeds, pair by pair, or two reports of one run each.

    >>> import runyard
    >>> scenario = runyard.Scenario(cpus=1, duration=1)
    >>> web = scenario.task("web").run({"exponential": 2000}).sleep({"exponential": 1000})
    >>> batch = scenario.task("batch", instances=2).run(1000)
    >>> idle = runyard.compare(scenario, only_after={"set": {"tasks.batch.policy": "SCHED_IDLE"}})
    >>> "verdict" in idle.judged.column_names
    True

    :param before: a scenario, or a report.
    :param after: the other scenario or report; ``None`` for the same scenario.
    :param seeds: the number of seeds that each scenario runs with.
    :param metrics: the figures to judge, as ``p99(chains.request.latency)``; otherwise a short list.
    :param both: keyword arguments of :func:`simulate` for the runs of both sides: ``duration``, ``features``, ``kernel``,
        ``set``, ``from_``, ``until``, ``warmup``.
    :param only_before: the same for the runs before.
    :param only_after: the same for the runs after.
    :param jobs: the number of threads; ``None`` for a thread on each CPU.
    :param progress: whether to show a progress bar; ``None`` shows one in a notebook or a terminal.
    :raises ScenarioError: as :func:`simulate`.
    :raises KeyboardInterrupt: on Ctrl-C.
    """
    _check_keywords({**(both or {}), **(only_before or {}), **(only_after or {})})
    if isinstance(before, Report) and isinstance(after, Report):
        return _runyard.compare_reports(before, after)
    if isinstance(before, Report) or isinstance(after, Report):
        raise TypeError("compare takes two reports or two scenarios")
    sides = (
        _side(before, both or {}, only_before or {}),
        _side(before if after is None else after, both or {}, only_after or {}),
    )
    with Progress(2 * seeds, progress) as bar:
        return _runyard.compare(sides, (seeds, list(metrics)), jobs, bar)


def sweep(
    spec: Source,
    *,
    backend: str = "local",
    out: str | os.PathLike[str] | None = None,
    jobs: int | None = None,
    resume: bool = False,
    progress: bool | None = None,
) -> Sweep:
    """Runs a scenario with many settings and seeds.

    The tables are the same to the byte, wherever the runs take place and however often the sweep is stopped.

    :param spec: a file, or a dict: ``scenario``, ``set``, ``axes``, ``points``, ``sample``, ``features``, ``kernel``,
        ``seeds``, ``duration``, ``from``, ``until``, ``warmup``, ``metrics``. A file names its scenario relative to its
        own folder, and a dict relative to the working folder. In a dict the scenario may itself be a dict.
    :param backend: ``"local"``, or ``"ray"``. Ray uses the cluster to which ``ray.init`` connected, or this machine if it
        was not called.
    :param out: a folder for ``runs.parquet``, ``summary.csv`` and ``index.html``. It also keeps the parts from which a
        stopped sweep continues.
    :param jobs: the number of threads of this machine; ``None`` for a thread on each CPU. Ray ignores it.
    :param resume: continue the sweep in ``out``, if there is one.
    :param progress: whether to show a progress bar; ``None`` shows one in a notebook or a terminal.
    :raises ScenarioError: if the specification or the scenario has a mistake; the error names the place.
    :raises ValueError: if ``out`` holds another sweep or other files.
    :raises KeyboardInterrupt: on Ctrl-C. The finished runs are kept in ``out``.
    """
    if backend not in ("local", "ray"):
        raise ValueError(f"backend is 'local' or 'ray', not {backend!r}")
    if out is None:
        if resume:
            raise ValueError("resume needs out, the folder of the sweep to continue")
        with tempfile.TemporaryDirectory() as scratch:
            return _swept(_plan(spec), (scratch, False), backend, jobs, progress)
    return _swept(_plan(spec), (os.fspath(out), resume), backend, jobs, progress)


def _plan(spec: Source) -> Plan:
    """Returns the plan of a specification. A scenario that was built has a name of its own."""
    scenario = spec.get("scenario") if isinstance(spec, Mapping) else None
    return Plan(_source(spec, getattr(scenario, "name", None)))


def _swept(
    plan: Plan,
    where: tuple[str, bool],
    backend: str,
    jobs: int | None,
    progress: bool | None,
) -> Sweep:
    if backend == "ray":
        from ._ray import run_on_ray
    folder = SweepFolder(plan, *where)
    with Progress(plan.runs, progress) as bar:
        if backend == "ray":
            run_on_ray(plan, folder, bar)
        else:
            folder.run(jobs, bar)
    return folder.finish()


def _check_keywords(keywords: Mapping[str, Any]) -> None:
    """Refuses keywords that the runs of a comparison do not take."""
    known = ("duration", "features", "from_", "kernel", "set", "until", "warmup")
    for key in keywords:
        if key not in known:
            raise TypeError(f"runs that are compared take {', '.join(known)}, not {key!r}")
    if isinstance(features := keywords.get("features"), str):
        raise TypeError(f"features is a list of names, as [{features!r}]")


def _source(source: Source, name: str | None = None) -> tuple[str, str | None]:
    """Returns the name of a file and None, or a name and the text of a scenario that is not in a file."""
    if isinstance(source, Mapping):
        # The indented text has lines, so an error can show the line of a mistake.
        return name or getattr(source, "name", None) or "<dict>", _json(source, indent=1)
    return os.fspath(source), None


def _json(value: Any, indent: int | None = None) -> str:
    return json.dumps(_plain(value), indent=indent, allow_nan=False)


def _plain(value: Any) -> Any:
    """Returns a value as JSON takes it. A whole float becomes an integer, since computed values are often floats."""
    if isinstance(value, (str, bool, int, type(None))):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return {key: _plain(own) for key, own in value.items()}
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        # A numpy array without dimensions claims to be iterable, but is a number.
        return _plain(value.item())
    if isinstance(value, Iterable) and not isinstance(value, (bytes, bytearray, memoryview)):
        return [_plain(own) for own in value]
    raise TypeError(f"{value!r} has no form in a scenario: use numbers, texts, lists and dicts")


def _options(
    duration: Duration | None = None,
    features: Iterable[str] = (),
    kernel: str | None = None,
    set: Mapping[str, Any] | None = None,
    *,
    from_: Duration | None = None,
    until: Duration | None = None,
    warmup: Duration | None = None,
) -> dict[str, Any]:
    if from_ is not None and warmup is not None:
        raise TypeError("warmup is another name of from_: one of both is enough")
    if isinstance(features, str):
        raise TypeError(f"features is a list of names, as [{features!r}]")
    if kernel is not None and not isinstance(kernel, str):
        raise TypeError(f"kernel is a name, as '6.12', not {kernel!r}")
    settings = [(path, _json(value)) for path, value in (set or {}).items()]
    return {
        "duration": span(duration),
        "from_": span(warmup if from_ is None else from_),
        "until": span(until),
        "features": list(features),
        "kernel": kernel,
        "settings": settings,
    }


def _side(source: Source, both: Mapping[str, Any], own: Mapping[str, Any]) -> Any:
    """Returns a side of a comparison: the source, all its options, and the options of this side alone.

    An option of this side overrides the same option of both sides.
    """
    all = {
        **both,
        **own,
        "features": [*both.get("features", ()), *own.get("features", ())],
        "set": {**both.get("set", {}), **own.get("set", {})},
    }
    return _source(source), _options(**all), _options(**own)
