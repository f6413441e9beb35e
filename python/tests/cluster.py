"""A Ray cluster of three nodes on this machine, each with one CPU, for another process: it is told by lines.

It runs where Runyard is not installed, as the nodes of a cluster do. It prints the address; "kill" kills a node that is not
the head, without any notice; the end of its input ends it.
"""

from __future__ import annotations

import importlib.util
import sys

from ray.cluster_utils import Cluster


def main() -> None:
    """Starts the cluster, and does as it is told."""
    assert importlib.util.find_spec("runyard") is None, "the nodes have runyard"
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    others = [cluster.add_node(num_cpus=1) for _ in range(2)]
    cluster.wait_for_nodes()
    print(cluster.address, flush=True)
    for line in sys.stdin:
        if line == "kill\n":
            cluster.remove_node(others.pop(), allow_graceful=False)
            print("killed", flush=True)
    cluster.shutdown()


if __name__ == "__main__":
    main()
