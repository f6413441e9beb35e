//! A snapshot as a table, like the kernel's `/proc/sched_debug`: one line for each CPU, group and task, in aligned
//! columns.

use super::{Counts, Snapshot};
use std::fmt;
use std::time::Duration;

/// The titles of the columns of [`Counts`].
const COUNTS: [&str; 8] =
    ["run s", "wait s", "switches", "migrations", "important", "turn", "limit", "moved"];

/// A table. Its first `words` columns are words, and aligned to the left.
struct Table {
    words: usize,
    rows: Vec<Vec<String>>,
}

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (cpus, tasks, threads) = (self.cpus.len(), self.tasks.len(), self.threads);
        write!(f, "runyard, after {} s: {cpus} CPUs, {tasks} tasks, ", seconds(self.uptime))?;
        writeln!(f, "{threads} threads, {} of them stopped", self.stopped_threads)?;
        if let Some(wait) = &self.oldest_wait {
            let name = wait.name.as_deref().unwrap_or("-");
            let (task, cpu, waits) = (wait.task, wait.cpu, seconds(wait.waits));
            writeln!(f, "oldest wait: {task} {name} on CPU {cpu}, for {waits} s")?;
        }
        if let Some(quota) = &self.quota {
            writeln!(f, "CPU quota: {quota}")?;
        }
        for deaf in &self.deaf {
            let name = deaf.name.as_deref().unwrap_or("-");
            writeln!(
                f,
                "thread {} cannot be asked for its CPU: {} {name}",
                deaf.thread, deaf.task
            )?;
        }
        writeln!(f)?;
        self.cpus_shown().fmt(f)?;
        if !self.groups.is_empty() {
            writeln!(f)?;
            self.groups_shown().fmt(f)?;
        }
        writeln!(f)?;
        self.tasks_shown().fmt(f)
    }
}

impl Snapshot {
    fn cpus_shown(&self) -> Table {
        let mut table = Table::new(2, &["cpu", "running", "waiting"]);
        for cpu in &self.cpus {
            let no_task = if cpu.online { "-" } else { "offline" };
            let running = cpu.running.map_or_else(|| no_task.to_owned(), |task| task.to_string());
            table.push(vec![cpu.cpu.to_string(), running, cpu.waiting.to_string()], &cpu.counts);
        }
        table
    }

    fn groups_shown(&self) -> Table {
        let mut table = Table::new(1, &["group", "tasks"]);
        for group in &self.groups {
            table.push(vec![one_word(&group.path), group.tasks.to_string()], &group.counts);
        }
        table
    }

    fn tasks_shown(&self) -> Table {
        let mut table =
            Table::new(5, &["task", "name", "state", "policy", "group", "prio", "cpu", "waits s"]);
        for task in &self.tasks {
            let own = vec![
                task.id.to_string(),
                one_word(task.name.as_deref().unwrap_or("-")),
                task.state.as_str().to_owned(),
                task.policy.to_string(),
                one_word(task.group.as_deref().unwrap_or("/")),
                task.policy.priority().to_string(),
                task.cpu.to_string(),
                task.waits.map_or_else(|| "-".to_owned(), seconds),
            ];
            table.push(own, &task.counts);
        }
        let mut ended = vec!["-".to_owned(); 8];
        "(ended)".clone_into(&mut ended[1]);
        table.push(ended, &self.ended);
        table
    }
}

impl Table {
    fn new(words: usize, own: &[&str]) -> Table {
        let titles = own.iter().chain(&COUNTS).map(|&title| title.replace(' ', "-"));
        Table { words, rows: vec![titles.collect()] }
    }

    fn push(&mut self, mut own: Vec<String>, counts: &Counts) {
        let Counts { run, wait, switches, migrations, preemptions: by } = *counts;
        own.extend([seconds(run), seconds(wait)]);
        let numbers = [switches, migrations, by.important, by.turn, by.limit, by.moved];
        own.extend(numbers.map(|number| number.to_string()));
        self.rows.push(own);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows[0].len();
        let width = |nth: usize| self.rows.iter().map(|row| row[nth].chars().count()).max();
        let widths: Vec<_> = (0..columns).map(|nth| width(nth).unwrap_or(0)).collect();
        for row in &self.rows {
            for (nth, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                let gap = if nth == 0 { "" } else { "  " };
                match nth < self.words {
                    true => write!(f, "{gap}{cell:<width$}")?,
                    false => write!(f, "{gap}{cell:>width$}")?,
                }
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// Returns a time in seconds, with microseconds.
fn seconds(span: Duration) -> String {
    format!("{}.{:06}", span.as_secs(), span.subsec_micros())
}

/// Returns a name that a user gave as one column. Characters that would break the line or the column are replaced.
fn one_word(name: &str) -> String {
    let is_plain = |it: char| !it.is_whitespace() && !it.is_control();
    name.chars().map(|it| if is_plain(it) { it } else { '_' }).collect()
}
