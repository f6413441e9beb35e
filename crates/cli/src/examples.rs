//! The examples in the help and in the manual. Each runs at the root of the repository; a test runs it.

use clap::Command;

/// The examples of each subcommand.
const EXAMPLES: [(&str, &[&str]); 15] = [
    ("reproduce", &["runyard reproduce", "runyard reproduce rt-migrate --host sim --out results"]),
    (
        "sim",
        &[
            "runyard sim scenarios/web-tier.json --duration 2s",
            "runyard sim scenarios/web-tier.json --duration 2s --kernel 6.12 --html web-tier.html",
            "runyard sim scenarios/web-tier.json --until 1s --set tasks.compaction.policy=SCHED_IDLE --json",
        ],
    ),
    (
        "live",
        &[
            "runyard live scenarios/web-tier.json --duration 1s",
            "runyard live scenarios/batch-beside-latency.json --cpus 2 --duration 1s --trace audio.pftrace",
        ],
    ),
    (
        "linux",
        &[
            "runyard linux scenarios/batch-beside-latency.json --duration 1s",
            "runyard linux scenarios/batch-beside-latency.json --cpus 2 --duration 1s --json",
        ],
    ),
    (
        "explain",
        &[
            "runyard explain scenarios/web-tier.json --task worker --duration 2s",
            "runyard explain scenarios/web-tier.json --task worker-3 --at 1.5s --duration 2s",
            "runyard explain scenarios/web-tier.json --chain request --duration 2s",
        ],
    ),
    ("calibrate", &["runyard calibrate", "runyard calibrate --json"]),
    (
        "sweep",
        &[
            "runyard sweep sweeps/tenants.json --out tenants --until 100ms",
            "runyard sweep sweeps/tenants.json --out tenants --until 100ms --resume",
        ],
    ),
    (
        "compare",
        &[
            "runyard compare scenarios/web-tier.json --after \"--kernel 6.12\" --both \"--duration 200ms\"",
            "runyard compare scenarios/web-tier.json --after \"--set tasks.compaction.policy=SCHED_IDLE\" \\\n\
             \x20     --until 200ms --metric \"p99(chains.request.latency)\" --fail-if \"share(tasks.compaction) < -50%\"",
        ],
    ),
    ("tunables", &["runyard tunables", "runyard tunables --kernel 6.6 --cpus 4 --json"]),
    ("features", &["runyard features", "runyard features --kernel 6.12"]),
    ("kernels", &["runyard kernels"]),
    (
        "import",
        &[
            "runyard import python/notebooks/recorded.txt --out recorded.json",
            "runyard import python/notebooks/recorded.txt --json",
        ],
    ),
    (
        "replay",
        &[
            "runyard replay python/notebooks/recorded.txt --recorded-on 6.18",
            "runyard replay python/notebooks/recorded.txt --recorded-on 6.18 --cpus 4 --kernel 6.12",
        ],
    ),
    ("completions", &["source <(runyard completions bash)"]),
    ("man", &["runyard man --out man1"]),
];

/// The command with the examples of each subcommand behind its options.
pub(crate) fn shown(command: Command) -> Command {
    EXAMPLES.into_iter().fold(command, |command, (name, examples)| {
        let text = format!("Examples:\n  {}", examples.join("\n  "));
        command.mut_subcommand(name, |subcommand| subcommand.after_help(text))
    })
}
