//! The figures as tables in plain ASCII.

use super::{
    Accuracy, BesideHog, Comparison, Crowded, Held, Lateness, LiveFigures, Memory, Peer, Rule,
    Share, Side, Spread, Threads, Wakeups,
};
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};

/// The head of a table.
const COMPARISONS: [&str; 8] = [
    "workload",
    "peer",
    "runyard ns/op",
    "peer ns/op",
    "ratio",
    "least..greatest",
    "median at 95 %",
    "rounds",
];
/// The head of a table.
const SHARES: [&str; 11] = [
    "situation",
    "part",
    "seconds",
    "by",
    "expected",
    "charged",
    "least..greatest",
    "single tasks",
    "apart",
    "allowed",
    "",
];

/// Renders one table for each kind of figure that was measured.
pub(crate) fn render(measured: &LiveFigures) -> String {
    let mut tables = Vec::new();
    if !measured.comparisons.is_empty() {
        tables.push(table(COMPARISONS, measured.comparisons.iter().map(comparison)));
    }
    if !measured.beside_hog.is_empty() {
        let head = ["pingpong_hog", "alone /s", "beside a hog /s", "ratio", "least..greatest"];
        tables.push(table(head, measured.beside_hog.iter().map(beside_hog)));
    }
    let late = [
        ("probe", "periods", &measured.lateness),
        ("beside short polls", "beats", &measured.short_polls),
        ("beside a neighbour that", "periods", &measured.neighbours),
        ("preemption", "times", &measured.preemption),
    ];
    for (what, times, rows) in late.into_iter().filter(|(.., rows)| !rows.is_empty()) {
        let head = [what, times, "mean us", "p50 us", "p99 us", "p99.9 us", "max us"];
        tables.push(table(head, rows.iter().map(lateness)));
    }
    if !measured.crowded.is_empty() {
        let head = ["crowded", "answers", "p50 us", "p99 us", "p99.9 us", "longest us"];
        tables.push(table(head, measured.crowded.iter().flat_map(crowded)));
    }
    if !measured.limits.is_empty() {
        let head = ["limit", "polls", "charged", "in any second", "the tasks had", "in any second"];
        tables.push(table(head, measured.limits.iter().map(held)));
    }
    if !measured.shares.is_empty() {
        tables.push(table(SHARES, measured.shares.iter().map(share)));
    }
    if !measured.spread.is_empty() {
        let head =
            ["workers", "expected", "the heavier group has", "least..greatest", "single tasks"];
        tables.push(table(head, measured.spread.iter().map(spread)));
    }
    if !measured.threads.is_empty() {
        let head = ["1,000 polls of 300 us", "most threads", "least..greatest", "on average"];
        tables.push(table(head, measured.threads.iter().map(threads)));
    }
    if !measured.accuracy.is_empty() {
        let head =
            ["timer", "periods", "mean us", "p50 us", "p99 us", "p99.9 us", "max us", "p50", "p99"];
        tables.push(table(head, measured.accuracy.iter().map(accuracy)));
    }
    if !measured.wakeups.is_empty() {
        let head = ["10,000 periods of 100 ms", "periods /s", "wake-ups /s", "switches /s", "CPU"];
        tables.push(table(head, measured.wakeups.iter().map(wakeups)));
    }
    if !measured.memory.is_empty() {
        let head = ["memory", "tasks that", "bytes each", "kept", "set_limit us"];
        tables.push(table(head, measured.memory.iter().map(memory)));
    }
    tables.join("\n")
}

/// Formats a row; the last two cells are ratios to cyclictest.
fn accuracy(row: &Accuracy) -> [String; 9] {
    let [name, periods, mean, p50, p99, p999, max] = lateness(&row.lateness);
    let ratio = |ratio: Option<f64>| ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}"));
    [name, periods, mean, p50, p99, p999, max, ratio(row.p50_ratio), ratio(row.p99_ratio)]
}

fn wakeups(row: &Wakeups) -> [String; 5] {
    [
        row.side.to_owned(),
        format!("{:.0}", row.periods_per_s),
        format!("{:.0}", row.wakeups_per_s),
        format!("{:.0}", row.switches_per_s),
        format!("{:.1}%", row.cpu_percent),
    ]
}

fn memory(row: &Memory) -> [String; 5] {
    let host = match row.host {
        Side::Runyard => "runyard",
        Side::Tokio => "tokio",
    };
    let figures = &row.figures;
    let bytes = |bytes: f64| format!("{bytes:.0}");
    let micros = figures.set_limit_ns.map(|nanos| format!("{:.0}", nanos as f64 / 1e3));
    [
        host.to_owned(),
        if figures.asleep { "sleep" } else { "wait" }.to_owned(),
        bytes(figures.bytes_each),
        figures.kept_bytes_each.map(bytes).unwrap_or_default(),
        micros.unwrap_or_else(|| "none".to_owned()),
    ]
}

fn held(row: &Held) -> [String; 6] {
    let percent = |share: f64| format!("{:.2}", share * 100.0);
    let seconds = |[least, most]: [f64; 2]| format!("{}..{}%", percent(least), percent(most));
    [
        format!("{} % of a CPU in {} ms", row.percent, row.period_ms),
        row.polls.to_owned(),
        format!("{}%", percent(row.charged.all)),
        seconds(row.charged.seconds),
        format!("{}%", percent(row.had.all)),
        seconds(row.had.seconds),
    ]
}

/// Formats a row: shares in per cent, differences in percentage points.
fn share(row: &Share) -> [String; 11] {
    let percent = |share: f64| format!("{:.3}%", share * 100.0);
    let by = match row.rule {
        Rule::Simulator => "simulator",
        Rule::Weights => "weights",
    };
    let verdict = match (row.is_within, row.is_within_model) {
        (true, _) => "within",
        (false, true) => "2 points",
        (false, false) => "BEYOND",
    };
    [
        row.situation.to_owned(),
        row.part.to_owned(),
        format!("{:.1}", row.seconds),
        by.to_owned(),
        percent(row.expected),
        percent(row.measured),
        format!("{}..{}", percent(row.range[0]), percent(row.range[1])),
        range(row.single),
        format!("{:+.3}", row.apart * 100.0),
        format!("{:.3}", row.allowed * 100.0),
        verdict.to_owned(),
    ]
}

fn spread(row: &Spread) -> [String; 5] {
    let range = |[least, most]: [f64; 2]| format!("{least:.3}..{most:.3}");
    [
        row.workers.to_string(),
        format!("{:.3}", row.expected),
        format!("{:.3}", row.measured),
        range(row.range),
        range(row.single),
    ]
}

fn threads(row: &Threads) -> [String; 4] {
    let range = format!("{:.0}..{:.0}", row.range[0], row.range[1]);
    let [most, mean] = [format!("{:.0}", row.greatest), format!("{:.1}", row.mean)];
    [row.dispatch.to_owned(), most, range, mean]
}

fn comparison(row: &Comparison) -> [String; 8] {
    let peer = match row.peer {
        Peer::Tokio => "tokio",
        Peer::Kernel => "kernel threads",
    };
    [
        row.workload.to_owned(),
        peer.to_owned(),
        format!("{:.0}", row.runyard_ns),
        format!("{:.0}", row.peer_ns),
        format!("{:.2}", row.ratio),
        range(row.ratio_range),
        range(row.ratio_interval),
        format!("{}{}", row.rounds, if row.stolen { ", CPUs stolen" } else { "" }),
    ]
}

fn beside_hog(row: &BesideHog) -> [String; 5] {
    [
        row.host.to_owned(),
        format!("{:.0}", row.alone_per_s),
        format!("{:.0}", row.beside_per_s),
        format!("{:.2}", row.ratio),
        range(row.ratio_range),
    ]
}

fn lateness(row: &Lateness) -> [String; 7] {
    let Some(figures) = row.figures else {
        let none = String::new;
        let refused = "not permitted".to_owned();
        return [row.probe.to_owned(), refused, none(), none(), none(), none(), none()];
    };
    let micros = |nanos: u64| format!("{:.1}", nanos as f64 / 1e3);
    [
        row.probe.to_owned(),
        figures.periods.to_string(),
        micros(figures.mean_ns),
        micros(figures.p50_ns),
        micros(figures.p99_ns),
        micros(figures.p999_ns),
        micros(figures.max_ns),
    ]
}

fn crowded(row: &Crowded) -> [[String; 6]; 4] {
    let host = |name: &str, figures| {
        let probe = Lateness { probe: "", figures: Some(figures) };
        let [_, answers, _, p50, p99, p999, max] = lateness(&probe);
        [name.to_owned(), answers, p50, p99, p999, max]
    };
    let [p50, p99, p999, max] = row.ratios.map(|ratio| format!("{:.2}", ratio.of_medians));
    let of_medians = ["ratio".to_owned(), String::new(), p50, p99, p999, max];
    let [p50, p99, p999, max] = row.ratios.map(|ratio| range(ratio.range));
    let ranges = ["least..greatest".to_owned(), String::new(), p50, p99, p999, max];
    [host("runyard", row.runyard), host("tokio", row.tokio), of_medians, ranges]
}

fn range([least, greatest]: [f64; 2]) -> String {
    format!("{least:.2}..{greatest:.2}")
}

/// Renders a table with names to the left and figures to the right.
pub(crate) fn table<const N: usize>(
    head: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    let aligned = |(column, text): (usize, String)| {
        let alignment = if column == 0 { CellAlignment::Left } else { CellAlignment::Right };
        Cell::new(text).set_alignment(alignment)
    };
    let cells = |row: [String; N]| row.into_iter().enumerate().map(aligned).collect::<Vec<_>>();
    table.set_header(cells(head.map(str::to_owned)));
    for row in rows {
        table.add_row(cells(row));
    }
    let lines: Vec<_> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::{Footprint, Percentiles};

    #[test]
    fn every_figure_has_a_place() {
        let figures = Percentiles {
            periods: 2_000,
            mean_ns: 1_100,
            p50_ns: 2_200,
            p99_ns: 3_300,
            p999_ns: 4_400,
            max_ns: 5_500,
        };
        let measured = LiveFigures {
            comparisons: vec![Comparison {
                workload: "yield_many",
                peer: Peer::Tokio,
                runyard_ns: 210.0,
                peer_ns: 105.0,
                ratio: 2.0,
                ratio_range: [1.5, 2.25],
                ratio_interval: [1.75, 2.25],
                rounds: 15,
                stolen: true,
            }],
            beside_hog: vec![BesideHog {
                host: "tokio",
                alone_per_s: 1_000.0,
                beside_per_s: 0.0,
                ratio: 0.0,
                ratio_range: [0.0, 0.0],
            }],
            lateness: vec![
                Lateness { probe: "tokio", figures: Some(figures) },
                Lateness { probe: "kernel thread, SCHED_FIFO", figures: None },
            ],
            memory: vec![Memory {
                host: Side::Tokio,
                figures: Footprint {
                    tasks: 1_000,
                    bytes_each: 64.5,
                    set_limit_ns: None,
                    asleep: true,
                    kept_bytes_each: Some(7.0),
                },
            }],
            ..LiveFigures::default()
        };
        let text = render(&measured);
        let words: Vec<Vec<_>> = text.lines().map(|l| l.split_whitespace().collect()).collect();
        assert_eq!(words[1][..6], ["yield_many", "tokio", "210", "105", "2.00", "1.50..2.25"]);
        assert_eq!(words[1][6..], ["1.75..2.25", "15,", "CPUs", "stolen"]);
        assert_eq!(words[4], ["tokio", "1000", "0", "0.00", "0.00..0.00"]);
        assert_eq!(words[7], ["tokio", "2000", "1.1", "2.2", "3.3", "4.4", "5.5"]);
        assert_eq!(words[8][3..], ["not", "permitted"], "{text}");
        assert_eq!(words[11], ["tokio", "sleep", "64", "7", "none"], "{text}");
    }
}
