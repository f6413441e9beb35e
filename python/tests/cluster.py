"""A Ray cluster of three nodes on this machine, each with one CPU. Another process controls it through standard input.

The program runs in an environment without Runyard, like the nodes of a cluster. It prints the address of the cluster. The
line "kill" kills a node other than the head, without notice. The end of the input ends the cluster.
"""

from __future__ import annotations

import importlib.util
import sys

from ray.cluster_utils import Cluster


def main() -> None:
    """Starts the cluster and executes the commands of standard input."""
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
