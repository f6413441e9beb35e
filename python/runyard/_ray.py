"""Sweeps on a Ray cluster. Ray distributes the runs, retries the tasks of a lost node, and keeps results until they are
fetched.

A Ray task is a batch of runs of about a second. It gets the texts from which the plan follows, and returns the results of
the runs as bytes. Only the driver writes, in the order of the plan, so the tables equal those of a local sweep.
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

#: The intended length of a Ray task in seconds: much longer than the overhead of a task, and much shorter than a sweep.
_BATCH_S = 1.0

#: The number of submitted Ray tasks for each CPU of the cluster. One runs and the others are queued, so no CPU waits for
#: the driver. The bound also limits the results that the driver has not stored yet.
_UNDER_WAY = 3


def run_on_ray(plan: Plan, folder: SweepFolder, bar: Progress) -> None:
    """Executes the missing runs of a folder on the cluster to which ``ray.init`` connected, or on this machine."""
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
        # The number of CPUs changes when nodes join or leave.
        resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call, unused-ignore]
        cpus = max(1, int(resources.get("CPU", 1)))
        while missing and len(flights) < _UNDER_WAY * cpus:
            batch = [missing.pop() for _ in range(_size(each_s, len(missing), cpus))]
            flights.add(run.remote(texts, batch))
        ended, _ = ray.wait(list(flights), timeout=0.2)
        for flight in ended:
            flights.remove(flight)
            took_s, packed = ray.get(flight)
            taken = folder.take(packed)
            each_s = took_s / taken
            done += taken
        bar(done)


def _size(each_s: float | None, missing: int, cpus: int) -> int:
    """Returns the number of runs of the next Ray task."""
    if each_s is None:
        # The length of a run is not known yet.
        return 1
    # Towards the end the tasks become shorter, so all CPUs end at about the same time.
    return max(1, min(int(_BATCH_S / each_s), missing // (2 * cpus)))


def _run(texts: Any, batch: list[int]) -> tuple[float, bytes]:
    """Executes a batch of runs on a worker, and returns the seconds that it took with the results."""
    began = time.monotonic()
    packed = _plan(*texts).run(batch)
    return time.monotonic() - began, packed


@lru_cache(maxsize=1)
def _plan(spec: tuple[str, str], scenario: tuple[str, str]) -> Plan:
    """Returns the plan of a sweep, which a worker makes once for all its Ray tasks."""
    return Plan.of_texts((spec, scenario))


def _uploaded() -> str:
    """Uploads the installed package to the cluster's store, for workers that do not have it, and returns its URI.

    ``ray.init`` uploads the packages that it is given, but it has been called already. So this function calls the same
    functions of ``ray._private``; there are no public ones, and they are the same in 2.40 and 2.60. The upload is a packed
    folder, not a wheel, since pip would have to install a wheel. Nodes that share a machine would install it at the same
    time, and one node would find the unfinished installation of another.
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
    # The store identifies a package by its name, so the name contains a digest.
    digest = hashlib.sha256(packed.getvalue()).hexdigest()[:16]
    uri = f"gcs://_ray_pkg_{digest}.zip"
    if not packaging.package_exists(uri):
        packaging.upload_package_to_gcs(uri, packed.getvalue())
    return uri
