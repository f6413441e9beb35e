//! `cargo xtask price`: what a task costs on this runtime and on tokio, in units that noise cannot touch.
//!
//! Each operation of the binary `price` of the benches runs N and 2N times on one worker, in processes of their own, and
//! the difference counts. Instructions, locked instructions, clock readings and allocations are those of callgrind. For
//! these runs the clocks of this runtime are 64 times slower (`--cfg runyard_slow_clock`), as the program is under
//! callgrind: otherwise ticks would come so often that they are the cost. System calls are counted by the kernel's
//! tracepoints, and times are taken in turns, both with the clocks as they are.

mod counts;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use serde_json::json;

use self::counts::Code;
pub use self::counts::Counts;
use crate::instructions::build;
use crate::median::median;
use crate::workspace::{self, Outcome, program};

/// The binary of the benches.
const BINARY: &str = "price";

/// The build with slow clocks: its folder, and its flags.
const SLOW: (&str, &str) = ("slow", "--cfg runyard_slow_clock");

/// The runtimes, as the binary names them.
const SIDES: [&str; 2] = ["runyard", "tokio"];

/// The operations of the binary, and how many of them the shorter run has, in thousands: under callgrind, and beside a
/// clock.
const OPERATIONS: [(&str, u64, u64); 10] = [
    ("spawn", 20, 500),
    ("spawn_by_handle", 20, 500),
    ("spawn_many", 20, 500),
    ("spawn_from_outside", 20, 500),
    ("join", 20, 500),
    ("chain", 20, 500),
    ("yield", 64, 2_000),
    ("wake", 64, 1_000),
    ("oneshot", 20, 300),
    ("ping_pong", 10, 100),
];

/// The operation that is only counted in system calls, and its number.
const IDLE: (&str, u64) = ("idle", 1_000);

/// The system calls that are counted, besides all of them.
const CALLS: [&str; 7] = [
    "futex",
    "epoll_wait",
    "timer_settime",
    "timerfd_settime",
    "sched_yield",
    "write",
    "sched_setaffinity",
];

/// The options of the measurement.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Only operations whose name contains this
    pub filter: Option<String>,
    /// Compile each crate by itself, as a user's program has them, not optimised together
    #[arg(long)]
    pub apart: bool,
    /// Count system calls too, by the kernel's tracepoints: needs `perf` and its permission
    #[arg(long)]
    pub calls: bool,
    /// Take times too, in so many rounds in turns
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub rounds: u32,
    /// Count this program, of an earlier build, instead of the present one
    #[arg(long, value_name = "FILE", conflicts_with_all = ["apart", "calls", "rounds"])]
    pub program: Option<PathBuf>,
    /// Print JSON instead of tables
    #[arg(long)]
    pub json: bool,
}

/// The cost of an operation on both runtimes.
struct Price {
    name: &'static str,
    counts: [Counts; 2],
    /// Nanoseconds in each round.
    times: Vec<[f64; 2]>,
}

/// The system calls of an operation on both runtimes, by their names.
type Calls = [BTreeMap<String, f64>; 2];

/// Builds the benches, measures and prints.
pub fn run(options: &Options) -> Outcome {
    let is_wanted = |name: &str| options.filter.as_deref().is_none_or(|part| name.contains(part));
    let slow = match &options.program {
        Some(program) => program.clone(),
        None => build(BINARY, options.apart, Some(SLOW))?,
    };
    let ordinary = (options.calls || options.rounds > 0)
        .then(|| build(BINARY, options.apart, None))
        .transpose()?;
    let (mut prices, mut code) = (Vec::new(), Code::default());
    for (name, times, _) in OPERATIONS.into_iter().filter(|&(name, ..)| is_wanted(name)) {
        let [first, second] =
            SIDES.map(|side| count(&slow, side, (name, 1_000 * times), &mut code));
        prices.push(Price { name, counts: [first?, second?], times: Vec::new() });
    }
    if let Some(binary) = &ordinary {
        for _ in 0..options.rounds {
            for price in &mut prices {
                let (.., times) =
                    OPERATIONS.into_iter().find(|it| it.0 == price.name).expect("known");
                let [first, second] =
                    SIDES.map(|side| time(binary, side, price.name, 1_000 * times));
                price.times.push([first?, second?]);
            }
        }
    }
    let mut calls = Vec::new();
    if let Some(binary) = ordinary.filter(|_| options.calls) {
        let all =
            OPERATIONS.map(|(name, times, _)| (name, 1_000 * times)).into_iter().chain([IDLE]);
        for (name, times) in all.filter(|(name, _)| is_wanted(name)) {
            let [first, second] = SIDES.map(|side| system_calls(&binary, side, name, times));
            calls.push((name, [first?, second?]));
        }
    }
    if prices.is_empty() && calls.is_empty() {
        return Err("no operation has such a name".into());
    }
    if options.json {
        println!("{:#}", to_json(&prices, &calls));
    } else {
        print!("{}", to_table(&prices, &calls));
    }
    Ok(())
}

/// The counts of one operation under callgrind.
fn count(
    binary: &Path,
    side: &str,
    (name, times): (&str, u64),
    code: &mut Code,
) -> Outcome<Counts> {
    let file = workspace::target(&format!("price.{}.callgrind", std::process::id()))?;
    let mut counted = |times: u64| -> Outcome<Counts> {
        let mut command = program("valgrind");
        command.args(["--tool=callgrind", "--dump-instr=yes", "--dump-line=no"]);
        command.args(["--compress-strings=no", "--compress-pos=no"]);
        command.arg(format!("--callgrind-out-file={}", file.display()));
        command.arg(binary).args([side, name, &times.to_string()]);
        workspace::output(&mut command)?;
        let said = fs::read_to_string(&file)?;
        fs::remove_file(&file)?;
        counts::counts(&said, code)
    };
    Ok(Counts::of_one(counted(times)?, counted(2 * times)?, times))
}

/// The nanoseconds of one operation.
fn time(binary: &Path, side: &str, name: &str, times: u64) -> Outcome<f64> {
    let taken = |times: u64| -> Outcome<f64> {
        let began = Instant::now();
        workspace::output(program(binary).args([side, name, &times.to_string()]))?;
        Ok(began.elapsed().as_nanos() as f64)
    };
    Ok((taken(2 * times)? - taken(times)?) / times as f64)
}

/// The system calls of one operation: those of [`CALLS`], and `all`.
fn system_calls(
    binary: &Path,
    side: &str,
    name: &str,
    times: u64,
) -> Outcome<BTreeMap<String, f64>> {
    let events: Vec<_> = CALLS.iter().map(|call| format!("syscalls:sys_enter_{call}")).collect();
    let events = format!("raw_syscalls:sys_enter,{}", events.join(","));
    let counted = |times: u64| -> Outcome<BTreeMap<String, f64>> {
        let mut command = program("perf");
        command.args(["stat", "-x", ",", "-e", &events]).arg(binary);
        command.args([side, name, &times.to_string()]);
        Ok(parse_stat(&String::from_utf8_lossy(&workspace::output(&mut command)?.stderr)))
    };
    let (shorter, longer) = (counted(times)?, counted(2 * times)?);
    let one = |(call, long): (String, f64)| {
        let short = shorter.get(&call).copied().unwrap_or_default();
        (call, (long - short) / times as f64)
    };
    Ok(longer.into_iter().map(one).collect())
}

/// The counts in the output of `perf stat -x ,`, by system calls.
fn parse_stat(said: &str) -> BTreeMap<String, f64> {
    let count = |line: &str| {
        let mut fields = line.split(',');
        let count = fields.next()?.parse().ok()?;
        let event = fields.nth(1)?;
        let call = event.strip_prefix("syscalls:sys_enter_");
        Some((call.unwrap_or("all").to_owned(), count))
    };
    said.lines().filter_map(count).collect()
}

/// The median of the rounds' ratios, with the least and the largest.
fn ratios(times: &[[f64; 2]]) -> Option<[f64; 3]> {
    let ratios: Vec<_> = times.iter().map(|[own, peer]| own / peer).collect();
    let least = ratios.iter().copied().reduce(f64::min)?;
    let most = ratios.iter().copied().reduce(f64::max)?;
    Some([median(&ratios)?, least, most])
}

fn to_table(prices: &[Price], calls: &[(&str, Calls)]) -> String {
    let mut table = String::new();
    if !prices.is_empty() {
        table.push_str("each pair: runyard / tokio\n");
        table.push_str(&format!(
            "{:20}{:>8} {:>8} {:>6}{:>14}{:>14}{:>14}  {}\n",
            "operation",
            "instr.",
            "",
            "ratio",
            "locked",
            "clock reads",
            "allocations",
            "time, ratio"
        ));
    }
    for Price { name, counts: [own, peer], times } in prices {
        let pair = |of: fn(&Counts) -> f64| format!("{:.1} / {:.1}", of(own), of(peer));
        let time = ratios(times).map_or(String::new(), |[median, least, most]| {
            format!("{median:.2} ({least:.2}-{most:.2})")
        });
        table.push_str(&format!(
            "{name:20}{:>8.0} {:>8.0} {:>6.2}{:>14}{:>14}{:>14}  {time}\n",
            own.instructions,
            peer.instructions,
            own.instructions / peer.instructions,
            pair(|it| it.locked),
            pair(|it| it.clock_reads),
            pair(|it| it.allocations),
        ));
    }
    for (name, [own, peer]) in calls {
        let pairs = own.iter().filter_map(|(call, own)| {
            let peer = peer.get(call).copied().unwrap_or_default();
            (own.abs() >= 0.005 || peer.abs() >= 0.005)
                .then(|| format!("{call} {own:.2} / {peer:.2}"))
        });
        let pairs: Vec<_> = pairs.collect();
        let shown = if pairs.is_empty() { "none".to_owned() } else { pairs.join(", ") };
        table.push_str(&format!("{name:20}system calls: {shown}\n"));
    }
    table
}

fn to_json(prices: &[Price], calls: &[(&str, Calls)]) -> serde_json::Value {
    let counts = |counts: &Counts| {
        json!({ "instructions": counts.instructions, "locked": counts.locked,
                "clock_reads": counts.clock_reads, "allocations": counts.allocations })
    };
    let price = |Price { name, counts: [own, peer], times }: &Price| {
        json!({ "name": name, "runyard": counts(own), "tokio": counts(peer),
                "ratio": own.instructions / peer.instructions, "time_ratio": ratios(times) })
    };
    let call = |(name, [own, peer]): &(&str, Calls)| json!({ "name": name, "runyard": own, "tokio": peer });
    json!({ "operations": prices.iter().map(price).collect::<Vec<_>>(),
            "system_calls": calls.iter().map(call).collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_counts_system_calls_by_their_names() {
        let said = "the program's own line\n\
                    42,,raw_syscalls:sys_enter,1000,100.00,,\n\
                    7,,syscalls:sys_enter_futex,1000,100.00,,\n\
                    <not counted>,,syscalls:sys_enter_write,0,0.00,,\n";
        let calls = [("all".to_owned(), 42.0), ("futex".to_owned(), 7.0)];
        assert_eq!(parse_stat(said), calls.into());
    }

    #[test]
    fn a_row_has_both_runtimes_and_their_ratio() {
        let of = |instructions, locked| Counts { instructions, locked, ..Counts::default() };
        let times = vec![[3.0, 2.0], [2.0, 2.0], [4.0, 2.0]];
        let price = Price { name: "yield", counts: [of(300.0, 1.0), of(200.0, 6.0)], times };
        let table = to_table(&[price], &[]);
        let row: Vec<_> = table.lines().last().unwrap().split_whitespace().collect();
        assert_eq!(row[..7], ["yield", "300", "200", "1.50", "1.0", "/", "6.0"]);
        assert!(table.ends_with("1.50 (1.00-2.00)\n"), "{table}");
    }

    #[test]
    fn system_calls_are_shown_if_there_are_any() {
        let of = |count| [("futex".to_owned(), count)].into();
        let table = to_table(&[], &[("idle", [of(4.0), of(3.5)]), ("yield", [of(0.001), of(0.0)])]);
        let rows: Vec<_> =
            table.lines().map(|row| row.split_whitespace().collect::<Vec<_>>()).collect();
        assert_eq!(rows[0], ["idle", "system", "calls:", "futex", "4.00", "/", "3.50"]);
        assert_eq!(rows[1], ["yield", "system", "calls:", "none"]);
    }

    #[test]
    fn without_rounds_there_is_no_ratio_of_times() {
        assert_eq!(ratios(&[]), None);
    }
}
