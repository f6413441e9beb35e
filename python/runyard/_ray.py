"""Sweeps on a Ray cluster: Ray moves the runs, retries what a lost node had, and keeps results until they are fetched.

A task is a batch of runs of about a second. It gets the texts from which the plan follows, and returns what the runs came
to as Arrow data. The driver alone writes, in the order of the plan, so the tables are those of a local sweep, to the byte.
"""

from __future__ import annotations

import hashlib
import io
import time
import zipfile
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray
from ray._private.runtime_env import packaging

from ._runyard import Plan, SweepFolder

if TYPE_CHECKING:
    from ._progress import Progress

#: How long a task should take, in seconds: much longer than a task costs, and short beside a sweep.
_BATCH_S = 1.0

#: How many tasks are under way for each CPU of the cluster. One runs and the others wait, so no CPU waits for the driver,
#: and the driver never has more results than it takes.
_UNDER_WAY = 3


def run_on_ray(plan: Plan, folder: SweepFolder, bar: Progress) -> None:
    """Runs what is missing in a folder on the cluster to which ``ray.init`` connected, or on this machine."""
    if not ray.is_initialized():
        ray.init(log_to_driver=False, include_dashboard=False)
    missing = folder.missing()[::-1]
    done = plan.runs - len(missing)
    texts = ray.put(plan.texts())
    run = ray.remote(_run).options(
        num_cpus=1, max_retries=-1, runtime_env={"py_modules": [_uploaded()]}
    )
    flights: set[Any] = set()
    each_s = None
    while missing or flights:
        # Nodes come and go.
        resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call, unused-ignore]
        cpus = max(1, int(resources.get("CPU", 1)))
        while missing and len(flights) < _UNDER_WAY * cpus:
            batch = [missing.pop() for _ in range(_size(each_s, len(missing), cpus))]
            flights.add(run.remote(texts, batch))
        ended, _ = ray.wait(list(flights), timeout=0.2)
        for flight in ended:
            flights.remove(flight)
            took_s, streams = ray.get(flight)
            taken = folder.take(streams)
            each_s = took_s / taken
            done += taken
        bar(done)


def _size(each_s: float | None, missing: int, cpus: int) -> int:
    """How many runs the next task has."""
    if each_s is None:
        # It is not known yet how long a run takes.
        return 1
    # Towards the end the tasks become shorter, so that all CPUs end at about the same time.
    return max(1, min(int(_BATCH_S / each_s), missing // (2 * cpus)))


def _run(texts: Any, batch: list[int]) -> tuple[float, list[bytes]]:
    """The runs of a batch on a worker, and how long they took."""
    began = time.monotonic()
    streams = _plan(*texts).run(batch)
    return time.monotonic() - began, streams


@lru_cache(maxsize=1)
def _plan(spec: tuple[str, str], scenario: tuple[str, str]) -> Plan:
    """The plan of a sweep, which a worker makes once for all its tasks."""
    return Plan.of_texts((spec, scenario))


def _uploaded() -> str:
    """The package as it is installed here, in the cluster's store, for workers that have none: its URI.

    Ray uploads by itself what ``ray.init`` is given. That has been called already, so the functions are called here that
    it calls: of ``ray._private``, since there are no others, and the same in 2.40 and 2.60. A folder that is packed goes
    where a wheel would have to be installed by pip: nodes that share a machine install it at the same time, and one finds
    what the other has half done.
    """
    package = Path(__file__).parent
    files = sorted(
        file for file in package.rglob("*") if file.is_file() and "__pycache__" not in file.parts
    )
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for file in files:
            name = zipfile.ZipInfo(str(Path(package.name) / file.relative_to(package)))
            archive.writestr(name, file.read_bytes(), zipfile.ZIP_DEFLATED, 1)
    # The store knows it by its name.
    digest = hashlib.sha256(packed.getvalue()).hexdigest()[:16]
    uri = f"gcs://_ray_pkg_{digest}.zip"
    if not packaging.package_exists(uri):
        packaging.upload_package_to_gcs(uri, packed.getvalue())
    return uri
