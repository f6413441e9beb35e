"""``python -m runyard sweep``: the program that ``runyard sweep --backend ray`` starts."""

from __future__ import annotations

import argparse
import signal
import sys

import runyard


def main() -> int:
    """Runs a sweep and returns the exit code of the command.

    0 is success, 2 a mistake in the input, and 3 an operation that the system refused.
    """
    parser = argparse.ArgumentParser(prog="runyard")
    commands = parser.add_subparsers(required=True)
    sweep = commands.add_parser("sweep", help="run a scenario over settings and seeds")
    sweep.add_argument("spec", help="the specification: a JSON file")
    sweep.add_argument("--out", required=True, help="the folder of the tables")
    sweep.add_argument("--resume", action="store_true", help="continue the sweep in --out")
    sweep.add_argument("--backend", choices=["local", "ray"], default="local")
    sweep.add_argument("--jobs", type=int)
    arguments = parser.parse_args()
    try:
        done = runyard.sweep(
            arguments.spec,
            backend=arguments.backend,
            out=arguments.out,
            jobs=arguments.jobs,
            resume=arguments.resume,
        )
    except (ValueError, ModuleNotFoundError) as error:
        print(f"runyard: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"runyard: {error}", file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        out, spec = arguments.out, arguments.spec
        print(f"runyard: stopped; --resume goes on: {spec} --out {out} --resume", file=sys.stderr)
        return 128 + signal.SIGINT
    if done.failed:
        count, reason = done.failed
        print(f"runyard: {count} runs failed: {reason}", file=sys.stderr)
    print(f"runyard: {done!r} in {arguments.out}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
