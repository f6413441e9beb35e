"""Linux's scheduling policies, simulated: scenarios, sweeps with statistics, and why a task was late.

A scenario is a file in rt-app's language, a dict of the same form, or is built with :class:`Scenario`:

>>> import runyard
>>> scenario = {
...     "machine": {"cpus": 1},
...     "tasks": {"web": {"run": 2000, "sleep": 1000}, "batch": {"run": 1000}},
... }
>>> report = runyard.simulate(scenario, duration=1)
>>> report.machine["cpus"]
1

Tables (:class:`Table`) are Arrow data. pandas, polars, pyarrow and DuckDB take them without a copy, as in
``polars.DataFrame(report.tasks)``, ``pyarrow.table(report.tasks)``, and ``pandas.DataFrame.from_arrow(report.tasks)``, for
which pandas takes pyarrow.
``from_arrow`` is of pandas 3; with an older one it is ``pyarrow.table(report.tasks).to_pandas()``.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Iterable, Mapping
from typing import Any, SupportsFloat, Union

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

#: The name of a file, or what its text would be as a dict.
Source = Union[str, "os.PathLike[str]", Mapping[str, Any]]

#: Seconds; or a number with ``us``, ``ms``, ``s`` or ``m`` behind it, as ``"10s"``.
Duration = Union[float, str]


def simulate(
    scenario: Source,
    *,
    seed: int = 1,
    duration: Duration | None = None,
    features: Iterable[str] = (),
    kernel: str | None = None,
    set: Mapping[str, Any] | None = None,
) -> Report:
    """Runs a scenario in virtual time, on simulated CPUs.

    The report is that of the command ``runyard sim``. The same scenario, seed and arguments give the same bytes on every
    machine, apart from the time on the wall.

    :param scenario: a file, or a dict.
    :param seed: all random draws follow from it.
    :param duration: replaces the scenario's.
    :param features: names to switch on, or off with ``NO_`` before the name.
    :param kernel: the kernel whose rules the machine goes by, as ``"6.12"``.
    :param set: values to replace, by path, as ``{"scheduler.base_slice_us": 1400}``.
    :raises ScenarioError: if something is wrong with the scenario; it says where.
    :raises KeyboardInterrupt: on Ctrl-C.
    """
    return _runyard.simulate(_source(scenario), seed, _options(duration, features, kernel, set))


def read(file: str | os.PathLike[str]) -> dict[str, Any]:
    """Reads a file in rt-app's language as a dict, which may be changed.

    Comments are left out. Events that repeat have a number behind their names from the second time, as ``run2``, which
    the language takes for the same event.

    :raises ScenarioError: if the file is no JSON as scenarios are written.
    """
    return _runyard.read(os.fspath(file))


def import_recording(
    file: str | os.PathLike[str],
    *,
    kernel: str | None = None,
    deadline_as_fifo: bool = False,
) -> dict[str, Any]:
    """Makes a scenario of what ``perf sched script`` or ftrace recorded on a real machine.

    :param kernel: the kernel that the replay goes by, whatever the recording says.
    :param deadline_as_fifo: make SCHED_DEADLINE tasks SCHED_FIFO ones of priority 99; else they are refused.
    :raises ScenarioError: if the file is no such recording.
    """
    return _runyard.import_recording(os.fspath(file), kernel, deadline_as_fifo)


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
    """Says why a task was late: its longest wake-up, or the one that was due nearest to ``at``.

    >>> import runyard
    >>> scenario = runyard.Scenario(cpus=1, duration=1)
    >>> web = scenario.task("web").run(2000).sleep(1000)
    >>> batch = scenario.task("batch").run(1000)
    >>> why = runyard.explain(scenario, "web")
    >>> why.task, why.cause
    ('web', 'important')

    :param task: a task, or a thread with all its instances.
    :param chain: instead of a task, a chain, of which the slowest token is told.
    :param at: since the beginning of the run.
    :raises ScenarioError: as :func:`simulate`.
    :raises ValueError: if there is no such task or chain, or nothing to tell of it.
    """
    if (task is None) == (chain is None):
        raise TypeError("explain takes a task, or a chain")
    asked = {"task": task, "chain": chain, "at": _span(at)}
    options = _options(duration, features, kernel, set)
    return _runyard.explain(_source(scenario), seed, options, asked)


def compare(
    before: Source | Report,
    after: Source | Report | None = None,
    *,
    seeds: int = 20,
    both: Mapping[str, Any] | None = None,
    only_before: Mapping[str, Any] | None = None,
    only_after: Mapping[str, Any] | None = None,
    jobs: int | None = None,
    progress: bool | None = None,
) -> Comparison:
    """Compares two scenarios, each with the same seeds, pair by pair; or two reports, of one run each.

    >>> import runyard
    >>> scenario = runyard.Scenario(cpus=1, duration=1)
    >>> web = scenario.task("web").run({"exponential": 2000}).sleep({"exponential": 1000})
    >>> batch = scenario.task("batch", instances=2).run(1000)
    >>> idle = runyard.compare(scenario, only_after={"set": {"tasks.batch.policy": "SCHED_IDLE"}})
    >>> "is_change" in idle.changes.column_names
    True

    :param before: a scenario, or a report.
    :param after: another one; ``None`` for the same scenario.
    :param seeds: how many seeds each scenario runs with.
    :param both: keyword arguments of :func:`simulate` for the runs of both sides: ``duration``, ``features``, ``kernel``,
        ``set``.
    :param only_before: the same for the runs before.
    :param only_after: the same for the runs after.
    :param jobs: how many threads; ``None`` for all CPUs.
    :param progress: a bar; ``None`` for one if somebody looks.
    :raises ScenarioError: as :func:`simulate`.
    :raises KeyboardInterrupt: on Ctrl-C.
    """
    _check_keywords({**(both or {}), **(only_before or {}), **(only_after or {})})
    if isinstance(before, Report) and isinstance(after, Report):
        return _runyard.compare_reports(before, after)
    if isinstance(before, Report) or isinstance(after, Report):
        raise TypeError("both are reports, or both are scenarios")
    sides = (
        _side(before, both or {}, only_before or {}),
        _side(before if after is None else after, both or {}, only_after or {}),
    )
    with Progress(2 * seeds, progress) as bar:
        return _runyard.compare(sides, seeds, jobs, bar)


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

    The tables are the same to the byte wherever the runs took place, and however often the sweep was stopped.

    :param spec: a file, or a dict: ``scenario``, ``set``, ``axes``, ``points``, ``sample``, ``features``, ``kernel``,
        ``seeds``, ``duration``, ``metrics``. A file names its scenario from its own folder, a dict from the working
        folder; in a dict the scenario may be a dict too.
    :param backend: ``"local"``; or ``"ray"`` for the cluster to which ``ray.init`` connected, else for this machine.
    :param out: a folder for ``runs.parquet``, ``summary.csv``, ``index.html``, and for the parts of which a sweep that
        was stopped goes on.
    :param jobs: how many threads of this machine; ``None`` for all. With Ray the cluster says that.
    :param resume: go on with the sweep in ``out``, if there is one.
    :param progress: a bar; ``None`` for one if somebody looks.
    :raises ScenarioError: if something is wrong with the specification or the scenario; it says where.
    :raises ValueError: if ``out`` has something else.
    :raises KeyboardInterrupt: on Ctrl-C. What is done is kept in ``out``.
    """
    if backend not in ("local", "ray"):
        raise ValueError(f"backend is 'local' or 'ray', not {backend!r}")
    if out is None:
        if resume:
            raise ValueError("to resume a sweep takes the folder in which it was begun: out")
        with tempfile.TemporaryDirectory() as scratch:
            return _swept(Plan(_source(spec)), (scratch, False), backend, jobs, progress)
    return _swept(Plan(_source(spec)), (os.fspath(out), resume), backend, jobs, progress)


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
    """Whether :func:`simulate` takes them, for runs that are compared."""
    known = ("duration", "features", "kernel", "set")
    for key in keywords:
        if key not in known:
            raise TypeError(f"runs that are compared take {', '.join(known)}, not {key!r}")
    if isinstance(features := keywords.get("features"), str):
        raise TypeError(f"features is a list of names, as [{features!r}]")


def _source(source: Source) -> tuple[str, str | None]:
    """The name of a file, and its text if it is none."""
    if isinstance(source, Mapping):
        # A mistake has a line that can be shown.
        return getattr(source, "name", None) or "<dict>", _json(source, indent=1)
    return os.fspath(source), None


def _json(value: Any, indent: int | None = None) -> str:
    return json.dumps(_plain(value), indent=indent, allow_nan=False)


def _plain(value: Any) -> Any:
    """A value as JSON has it. A float that is whole is an integer, as what is computed often is."""
    if isinstance(value, (str, bool, int, type(None))):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return {key: _plain(own) for key, own in value.items()}
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        # A number of numpy, which says of an array without dimensions that it is iterable.
        return _plain(value.item())
    if isinstance(value, Iterable) and not isinstance(value, (bytes, bytearray, memoryview)):
        return [_plain(own) for own in value]
    raise TypeError(f"{value!r} has no form in a scenario")


def _options(
    duration: Duration | None = None,
    features: Iterable[str] = (),
    kernel: str | None = None,
    set: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    if isinstance(features, str):
        raise TypeError(f"features is a list of names, as [{features!r}]")
    if kernel is not None and not isinstance(kernel, str):
        raise TypeError(f"kernel is a name, as '6.12', not {kernel!r}")
    settings = [(path, _json(value)) for path, value in (set or {}).items()]
    return {
        "duration": _span(duration),
        "features": list(features),
        "kernel": kernel,
        "settings": settings,
    }


def _side(source: Source, both: Mapping[str, Any], own: Mapping[str, Any]) -> Any:
    """A side of a comparison: all its options, of which its own go before those of both sides, and its own ones."""
    all = {
        **both,
        **own,
        "features": [*both.get("features", ()), *own.get("features", ())],
        "set": {**both.get("set", {}), **own.get("set", {})},
    }
    return _source(source), _options(**all), _options(**own)


def _span(span: Duration | None) -> str | None:
    """A span as the command line has it."""
    if span is None or isinstance(span, str):
        return span
    if not isinstance(span, SupportsFloat):
        raise TypeError(f"a time is seconds, or a text as '10s', not {span!r}")
    if not 0 <= float(span) < math.inf:
        raise ValueError(f"a time is seconds from 0 on, or a text as '10s', not {span!r}")
    return f"{round(float(span) * 1_000_000)}us"
