"""The builder for scenarios."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any, Union

from ._runyard import known_keys
from ._times import Duration, of_language

#: A time in microseconds, or a distribution from which each use draws anew, as ``{"exponential": 500}``.
Time = Union[int, float, Mapping[str, Any]]

_THREAD, _PHASE, _EVENTS = known_keys()

#: The keys that are written as events: a name, perhaps with a number or a word behind it. The language reads any key that
#: begins with a name as that event, misspelt ones too.
_EVENT = re.compile(f"({'|'.join(_EVENTS)}|broadcast)(\\d+|_.*)?")


class Scenario(dict[str, Any]):
    """A scenario that is built step by step: a dict with the content of a scenario's file.

    >>> import runyard
    >>> scenario = runyard.Scenario(cpus=1)
    >>> web = scenario.task("web", nice=-5).run(2000).sleep(1000)
    >>> batch = scenario.task("batch", instances=2, policy="SCHED_IDLE").run(1000)
    >>> runyard.simulate(scenario, duration=1).machine["cpus"]
    1
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        cpus: int | None = None,
        topology: str | None = None,
        kernel: str | None = None,
        duration: Duration | None = None,
        features: Iterable[str] = (),
        machine: Mapping[str, Any] | None = None,
        scheduler: Mapping[str, Any] | None = None,
    ) -> None:
        """Begins a scenario without tasks.

        :param name: the scenario's name in reports.
        :param cpus: the number of CPUs of the machine.
        :param topology: the grouping of the CPUs, as ``"2x8x2"``: nodes, cores of each, threads of each.
        :param kernel: the kernel whose rules the machine follows, as ``"6.12"``.
        :param duration: the length of a run: seconds, or a text as ``"500ms"``.
        :param features: names of features to switch on, or off with ``NO_`` before the name.
        :param machine: other keys of the machine, as ``{"costs": {"context_switch_ns": 1500}}``.
        :param scheduler: tunables of the scheduler, as ``{"base_slice_us": 3000}``.
        """
        super().__init__()
        #: The scenario's name in reports.
        self.name = name
        own = _given(cpus=cpus, topology=topology, kernel=kernel) | dict(machine or {})
        if own:
            self["machine"] = own
        if scheduler:
            self["scheduler"] = dict(scheduler)
        if features:
            self["features"] = list(features)
        if duration is not None:
            self["global"] = {"duration": of_language(duration)}
        self["tasks"] = {}

    def group(self, path: str, **keys: Any) -> Scenario:
        """Adds a task group, as ``"/tenant"``.

        :param keys: ``weight``, ``idle``, ``latency_nice``, or a limit: ``runtime``, ``period`` and ``burst`` in
            microseconds, and ``per_cpu``. The files of cgroup v2 are keys too:
            ``**{"cpu.max": "50000 100000", "cpuset.cpus": "0-3"}``.
        """
        self.setdefault("groups", {})[path] = keys
        return self

    def chain(
        self,
        name: str,
        tasks: Iterable[Union[str, Iterable[str]]],
        *,
        deadline_us: int | None = None,
        join: str | None = None,
    ) -> Scenario:
        """Adds a chain of tasks that wake up each other.

        Its latency is measured from the first task's wake-up, or the arrival of its request, to the end of the last
        task's work.

        :param tasks: the tasks in order; a list in their place is several tasks at one place.
        :param join: ``"first"`` if the first of several copies of a request ends it, ``"all"`` (the default) if the last does.
        """
        places = [place if isinstance(place, str) else list(place) for place in tasks]
        chain = {"tasks": places} | _given(deadline_us=deadline_us, join=join)
        self.setdefault("chains", {})[name] = chain
        return self

    def arrivals(self, name: str, **keys: Any) -> Scenario:
        """Adds requests from outside, which do not wait for each other.

        :param keys: the times, one of ``rate`` (a second), ``rates``, ``every`` and ``times``; the effect, ``sem_post``
            (a semaphore) or ``fork`` (a task); and ``jitter``, ``bound`` and ``deadline_us``.

        >>> import runyard
        >>> service = runyard.Scenario(cpus=1).arrivals("request", rate=500, sem_post="work")
        >>> worker = service.task("worker").then("sem_wait", "work").run({"exponential": 1000})
        >>> runyard.simulate(service, duration=10).to_dict()["chains"][0]["refused"]
        0
        """
        self.setdefault("arrivals", {})[name] = keys
        return self

    def task(
        self,
        name: str,
        *,
        instances: int = 1,
        policy: str | None = None,
        priority: int | None = None,
        nice: int | None = None,
        group: str | None = None,
        latency_nice: int | None = None,
        cpus: Iterable[int] | None = None,
        loop: int | None = None,
        **keys: Any,
    ) -> Task:
        """Adds a task and returns it. Its steps are added with the methods of :class:`Task`.

        :param instances: the number of tasks with these steps.
        :param policy: ``"SCHED_OTHER"``, ``"SCHED_FIFO"``, ``"SCHED_RR"``, ``"SCHED_BATCH"``, ``"SCHED_IDLE"``.
        :param priority: the priority under a real-time policy, 1 to 99.
        :param nice: the nice value under another policy, -20 to 19.
        :param group: the path of the task's group.
        :param latency_nice: the latency nice value, -20 to 19.
        :param cpus: the CPUs on which the task may run.
        :param loop: how often the task repeats its steps; ``None`` for ever.
        :param keys: any other key of a thread object, as ``delay=1000``.
        :raises ValueError: if the scenario has such a task already, or if the policy has no ``priority`` or no ``nice``.
        :raises TypeError: if a thread object has no such key.
        """
        tasks: dict[str, Any] = self["tasks"]
        if name in tasks:
            raise ValueError(f"there is a task {name!r} already; each name is used once")
        if priority is not None and nice is not None:
            raise ValueError("a task has either a priority or a nice value")
        asked = policy or self.get("global", {}).get("default_policy") or "SCHED_OTHER"
        if nice is not None and asked in ("SCHED_FIFO", "SCHED_RR"):
            raise ValueError(f"a task of {asked} has a priority, not a nice value")
        if priority is not None and asked in ("SCHED_OTHER", "SCHED_BATCH", "SCHED_IDLE"):
            raise ValueError(f"a task of {asked} has a nice value, not a priority: nice=, or policy='SCHED_FIFO'")
        _check_keys("task", keys, [*_TASK, *_THREAD])
        own = _given(
            instance=None if instances == 1 else instances,
            policy=policy,
            priority=nice if priority is None else priority,
            group=group,
            latency_nice=latency_nice,
            cpus=None if cpus is None else list(cpus),
            loop=loop,
        )
        task = tasks[name] = Task(own | keys)
        return task


class Steps(dict[str, Any]):
    """The steps of a task, one after the other. Each method adds a step and returns this object."""

    def then(self, event: str, value: Any = None) -> Any:
        """Adds any step of the language: ``then("barrier", "b")``.

        :raises ValueError: if no event has this name.
        """
        if not _is_event(event):
            raise ValueError(f"no event is called {event!r}{_advice(event, _EVENTS)}")
        key, number = event, 2
        while key in self:
            # The language reads a key with digits behind an event as that event.
            key, number = f"{event}{number}", number + 1
        self[key] = "" if value is None else value
        return self

    def run(self, us: Time) -> Any:
        """Adds a computation of ``us`` microseconds of CPU time."""
        return self.then("run", us)

    def sleep(self, us: Time) -> Any:
        """Adds a sleep of ``us`` microseconds."""
        return self.then("sleep", us)

    def timer(self, period_us: int, *, ref: str = "unique", absolute: bool = True) -> Any:
        """Adds a wait for the beginning of the next period."""
        mode = {"mode": "absolute"} if absolute else {}
        return self.then("timer", {"ref": ref, "period": period_us} | mode)

    def send(self, ref: str, *, bytes: int = 1, capacity: int | None = None) -> Any:
        """Adds a write into a pipe, which waits while the pipe is full."""
        return self.then("send", {"ref": ref, "bytes": bytes} | _given(capacity=capacity))

    def recv(self, ref: str, *, bytes: int = 1) -> Any:
        """Adds a read from a pipe, which waits until the pipe has enough bytes."""
        return self.then("recv", {"ref": ref, "bytes": bytes})

    def lock(self, mutex: str) -> Any:
        """Adds the lock of a mutex, which waits until the mutex is free."""
        return self.then("lock", mutex)

    def unlock(self, mutex: str) -> Any:
        """Adds the unlock of a mutex."""
        return self.then("unlock", mutex)

    def suspend(self, ref: str | None = None) -> Any:
        """Adds a sleep that lasts until the task is resumed."""
        return self.then("suspend", ref)

    def resume(self, task: str) -> Any:
        """Adds the wake-up of a suspended task."""
        return self.then("resume", task)


class Task(Steps):
    """A task of a :class:`Scenario`. It repeats its steps for ever, unless ``loop`` is given."""

    def phase(self, name: str | None = None, *, loop: int = 1, **keys: Any) -> Phase:
        """Adds a phase and returns it. Steps are added to the phase; a task has either phases or steps of its own."""
        _check_keys("phase", keys, ["loop", *_PHASE])
        phases: dict[str, Any] = self.setdefault("phases", {})
        phase = phases[name or f"phase{len(phases) + 1}"] = Phase({"loop": loop} | keys)
        return phase


class Phase(Steps):
    """A phase of a :class:`Task`."""


#: The keywords of ``Scenario.task`` that have other names in the language.
_TASK = ("instances", "nice")


def _is_event(key: str) -> bool:
    """Says whether a key is written as an event."""
    return key not in _THREAD and _EVENT.fullmatch(key) is not None


def _check_keys(method: str, keys: Mapping[str, Any], known: Iterable[str]) -> None:
    """Refuses keys that the language would only warn of."""
    known = list(known)
    for key in keys:
        if key not in known and not _is_event(key):
            raise TypeError(f"{method}() takes no {key!r}{_advice(key, known)}")


def _advice(word: str, known: Iterable[str]) -> str:
    """Returns the known word that is nearest to a misspelt one, as the end of a message."""
    near = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(known)}"


def _given(**values: Any) -> dict[str, Any]:
    """Returns the values that are not None."""
    return {key: value for key, value in values.items() if value is not None}
