"""Scenarios that are built step by step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Union

#: A time in microseconds; or a distribution that is drawn from anew each time, as ``{"exponential": 500}``.
Time = Union[int, float, Mapping[str, Any]]


class Scenario(dict[str, Any]):
    """A scenario that is built step by step: the dict that a scenario's file would be.

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
        duration: int | None = None,
        features: Iterable[str] = (),
        machine: Mapping[str, Any] | None = None,
        scheduler: Mapping[str, Any] | None = None,
    ) -> None:
        """Begins a scenario without tasks.

        :param name: what reports call it.
        :param cpus: how many CPUs the machine has.
        :param topology: how they are grouped, as ``"2x8x2"``: nodes, cores of each, threads of each.
        :param kernel: the kernel whose rules the machine goes by, as ``"6.12"``.
        :param duration: how long a run takes, in whole seconds; :func:`simulate` takes any time instead.
        :param features: names to switch on, or off with ``NO_`` before the name.
        :param machine: what else the machine has, as ``{"costs": {"context_switch_ns": 1500}}``.
        :param scheduler: tunables of the scheduler, as ``{"base_slice_us": 3000}``.
        """
        super().__init__()
        #: What reports call it.
        self.name = name
        own = _given(cpus=cpus, topology=topology, kernel=kernel) | dict(machine or {})
        if own:
            self["machine"] = own
        if scheduler:
            self["scheduler"] = dict(scheduler)
        if features:
            self["features"] = list(features)
        if duration is not None:
            self["global"] = {"duration": duration}
        self["tasks"] = {}

    def group(self, path: str, **keys: Any) -> Scenario:
        """Adds a task group, as ``"/tenant"``, with ``weight``, ``idle``, ``latency_nice``, or a limit: ``runtime`` and
        ``period`` in microseconds, ``burst``, ``per_cpu``."""
        self.setdefault("groups", {})[path] = keys
        return self

    def chain(
        self, name: str, tasks: Iterable[str], *, deadline_us: int | None = None
    ) -> Scenario:
        """Adds a chain: tasks that wake up each other, from whose first wake-up to whose last end a latency is
        measured."""
        chain = {"tasks": list(tasks)} | _given(deadline_us=deadline_us)
        self.setdefault("chains", {})[name] = chain
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
        """Adds a task, whose steps are added to what is returned.

        :param instances: how many tasks there are of it.
        :param policy: ``"SCHED_OTHER"``, ``"SCHED_FIFO"``, ``"SCHED_RR"``, ``"SCHED_BATCH"``, ``"SCHED_IDLE"``.
        :param priority: of a real-time policy, 1 to 99.
        :param nice: of another policy, -20 to 19.
        :param group: its task group.
        :param latency_nice: -20 to 19.
        :param cpus: the CPUs on which it may run.
        :param loop: how often it goes through its steps; for ever if that is not said.
        :param keys: any other key of a thread object, as ``delay=1000``.
        :raises ValueError: if there is such a task, or both ``priority`` and ``nice`` are given.
        """
        tasks: dict[str, Any] = self["tasks"]
        if name in tasks:
            raise ValueError(f"there is a task {name!r} already")
        if priority is not None and nice is not None:
            raise ValueError("a task has a priority or a nice value")
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
    """Steps of a task, one after the other. Each method adds one, and returns the same steps."""

    def then(self, event: str, value: Any = None) -> Any:
        """Adds any step of the language: ``then("barrier", "b")``."""
        key, number = event, 2
        while key in self:
            # A key that begins like an event is that event.
            key, number = f"{event}{number}", number + 1
        self[key] = "" if value is None else value
        return self

    def run(self, us: Time) -> Any:
        """Computes for so many microseconds of CPU time."""
        return self.then("run", us)

    def sleep(self, us: Time) -> Any:
        """Sleeps for so many microseconds."""
        return self.then("sleep", us)

    def timer(self, period_us: int, *, ref: str = "unique", absolute: bool = True) -> Any:
        """Waits for the begin of its next period."""
        mode = {"mode": "absolute"} if absolute else {}
        return self.then("timer", {"ref": ref, "period": period_us} | mode)

    def send(self, ref: str, *, bytes: int = 1, capacity: int | None = None) -> Any:
        """Writes into a pipe, and waits while that is full."""
        return self.then("send", {"ref": ref, "bytes": bytes} | _given(capacity=capacity))

    def recv(self, ref: str, *, bytes: int = 1) -> Any:
        """Reads from a pipe, and waits while that has too little."""
        return self.then("recv", {"ref": ref, "bytes": bytes})

    def lock(self, mutex: str) -> Any:
        """Waits for a mutex, and has it."""
        return self.then("lock", mutex)

    def unlock(self, mutex: str) -> Any:
        """Gives a mutex back."""
        return self.then("unlock", mutex)

    def suspend(self, ref: str | None = None) -> Any:
        """Sleeps until it is resumed."""
        return self.then("suspend", ref)

    def resume(self, task: str) -> Any:
        """Wakes up a task that is suspended."""
        return self.then("resume", task)


class Task(Steps):
    """A task of a :class:`Scenario`. It goes through its steps for ever, unless ``loop`` was said."""

    def phase(self, name: str | None = None, *, loop: int = 1, **keys: Any) -> Phase:
        """Begins a phase, whose steps are added to what is returned. A task has phases, or steps of its own."""
        phases: dict[str, Any] = self.setdefault("phases", {})
        phase = phases[name or f"phase{len(phases) + 1}"] = Phase({"loop": loop} | keys)
        return phase


class Phase(Steps):
    """A phase of a :class:`Task`."""


def _given(**values: Any) -> dict[str, Any]:
    """Those values that are given."""
    return {key: value for key, value in values.items() if value is not None}
