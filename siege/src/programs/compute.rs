//! Code that computes and allocates: regex with its pool of caches, serde_json and flate2.

use super::all;
use crate::draws::Draws;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use regex::Regex;
use runyard::spawn;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::sync::OnceLock;

/// Searches texts with a pattern that all tasks share, and with a pattern of each task.
pub async fn patterns(mut draws: Draws) {
    static WORDS: OnceLock<Regex> = OnceLock::new();
    let words = WORDS.get_or_init(|| Regex::new(r"\b([a-z]+)-(\d+)\b").expect("a pattern"));
    let (tasks, many) = (draws.within(1, 6), draws.within(1, 200));
    let find = |nth: u64| {
        spawn(async move {
            let text: String = (0..many).map(|it| format!("word-{it} {nth} ")).collect();
            let numbers =
                words.captures_iter(&text).map(|found| found[2].parse::<u64>().unwrap_or(0));
            assert_eq!(numbers.sum::<u64>(), (0..many).sum::<u64>());
            let own = Regex::new(&format!(r"(?i)WORD-{}\s", many - 1)).expect("a pattern");
            assert_eq!(own.find_iter(&text).count(), 1);
        })
    };
    all((0..tasks).map(find).collect::<Vec<_>>()).await;
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Record {
    name: String,
    numbers: Vec<u64>,
    parts: BTreeMap<String, Option<Box<Record>>>,
}

impl Record {
    fn draw(draws: &mut Draws, depth: u32) -> Record {
        let numbers = (0..draws.below(20)).map(|_| draws.number()).collect();
        let children = if depth == 0 { 0 } else { draws.below(4) };
        let parts = (0..children).map(|nth| {
            let part = (draws.below(4) > 0).then(|| Box::new(Record::draw(draws, depth - 1)));
            (format!("part \"{nth}\""), part)
        });
        let parts = parts.collect();
        Record { name: format!("record\n{}", draws.number()), numbers, parts }
    }
}

/// Writes records as JSON, and reads them again.
pub async fn json(mut draws: Draws) {
    let tasks = draws.within(1, 6);
    let turn = |_| {
        let mut draws = Draws::new(draws.number(), 0);
        spawn(async move {
            for _ in 0..4 {
                let record = Record::draw(&mut draws, 4);
                let text = serde_json::to_string_pretty(&record).expect("it is written");
                let read: Record = serde_json::from_str(&text).expect("it is read");
                assert_eq!(read, record);
            }
        })
    };
    all((0..tasks).map(turn).collect::<Vec<_>>()).await;
}

/// Compresses bytes, and decompresses them again.
pub async fn compression(mut draws: Draws) {
    let tasks = draws.within(1, 4);
    let turn = |_| {
        let (seed, length) = (draws.number(), draws.within(1, 60_000));
        spawn(async move {
            let mut draws = Draws::new(seed, 0);
            let bytes: Vec<u8> = (0..length).map(|_| draws.below(9) as u8).collect();
            let mut packed = GzEncoder::new(Vec::new(), Compression::new(6));
            packed.write_all(&bytes).expect("memory takes it");
            let packed = packed.finish().expect("memory takes it");
            let mut read = Vec::new();
            GzDecoder::new(&packed[..]).read_to_end(&mut read).expect("it is whole");
            assert!(read == bytes, "what was compressed is expanded again");
        })
    };
    all((0..tasks).map(turn).collect::<Vec<_>>()).await;
}
