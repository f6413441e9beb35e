//! The original: `rt-migrate-test` of rt-tests, if it is on the path.

use crate::lap::{Lap, Round};
use runyard_engine::time::Nanos;
use std::process::{Command, Stdio};

/// The rounds of the original with so many threads; `None` if the program is missing or does not run.
pub(super) fn rounds(threads: usize, rounds: u32) -> Option<Vec<Round>> {
    let mut command = Command::new("rt-migrate-test");
    command.args(["-l", &rounds.to_string(), &threads.to_string()]);
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let rounds = read(&String::from_utf8(output.stdout).ok()?)?;
    (output.status.success() && !rounds.is_empty()).then_some(rounds)
}

/// Reads the original's output. After a line of thread numbers there are three lines a round: starts, ends and loops.
/// Loops stand for work here, since the rule only compares them with each other.
fn read(text: &str) -> Option<Vec<Round>> {
    let mut lines = text.lines().skip_while(|line| !line.starts_with("Iter:")).skip(1);
    let mut rounds = Vec::new();
    while let Some((number, starts)) = lines.next().and_then(|line| line.split_once(':')) {
        if number.trim().parse::<u32>().is_err() {
            break;
        }
        let mut row = |name| numbers(lines.next()?.trim_start().strip_prefix(name)?);
        let (ends, loops) = (row("len:")?, row("loops:")?);
        let starts = numbers(starts)?;
        if starts.len() != ends.len() || starts.len() != loops.len() {
            return None;
        }
        let lap = |((&start, &end), &loops): ((&u64, &u64), &u64)| {
            let (start, end) = (Nanos::from_micros(start), Nanos::from_micros(end));
            Lap { start, end, work: Nanos(loops), kept: Nanos::ZERO }
        };
        rounds.push(starts.iter().zip(&ends).zip(&loops).map(lap).collect());
        // An empty line ends the round.
        lines.next();
    }
    Some(rounds)
}

fn numbers(row: &str) -> Option<Vec<u64>> {
    row.split_whitespace().map(|number| number.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rt_migrate::rounds::passes;

    /// The output of version 2.40.
    const PRINTED: &str = "\
Iter:      0       1       2  
   0:    20148     139     116  
 len:    40148   20139   20117  
 loops: 982669  936716  921556  

   1:       54   20112     169  
 len:    20055   40113   20170  
 loops: 1066072  1084440  1067843  

Parent pid: 26596
 Task 0 (prio 2) (pid 26597):
   Max: 20183 us
";

    #[test]
    fn its_rounds_are_read_and_judged() {
        let rounds = read(PRINTED).unwrap();
        assert_eq!(rounds.len(), 2);
        let us = Nanos::from_micros;
        let least =
            Lap { start: us(20_148), end: us(40_148), work: Nanos(982_669), kept: Nanos::ZERO };
        assert_eq!((rounds[0].len(), rounds[0][0]), (3, least));
        assert!(passes(&rounds[0]) && !passes(&rounds[1]));
        assert_eq!(read("rt-migrate-test: no permission\n"), Some(Vec::new()));
        assert_eq!(read("Iter: 0 1\n 0: 1 2\n len: 1\n loops: 1 2\n"), None);
        assert_eq!(read("Iter: 0 1\n 0: 1 2\n"), None);
    }
}
