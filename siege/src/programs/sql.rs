//! rusqlite with its own SQLite, in memory. SQLite is C code with locks for the whole process.

use super::all;
use crate::draws::Draws;
use runyard::spawn;
use rusqlite::Connection;
use std::sync::{Arc, Mutex};

fn open() -> Connection {
    let database = Connection::open_in_memory().expect("a database in memory");
    database.execute_batch("create table items (number integer, text text)").expect("a table");
    database
}

fn add(database: &mut Connection, from: u64, to: u64) {
    let transaction = database.transaction().expect("a transaction");
    for number in from..to {
        let mut add =
            transaction.prepare_cached("insert into items values (?1, ?2)").expect("parsed");
        add.execute((number as i64, format!("item {number}"))).expect("a row");
    }
    transaction.commit().expect("memory takes it");
}

fn sum(database: &Connection) -> u64 {
    let query = "select sum(number) from items where text like 'item %'";
    database.query_one(query, (), |row| row.get::<_, i64>(0)).expect("a sum") as u64
}

/// Uses one database for each task.
pub async fn own_database(mut draws: Draws) {
    let (tasks, many) = (draws.within(1, 4), draws.within(1, 200));
    let work = |_| {
        spawn(async move {
            let mut database = open();
            add(&mut database, 0, many);
            sum(&database)
        })
    };
    for sum in all((0..tasks).map(work).collect::<Vec<_>>()).await {
        assert_eq!(sum, (0..many).sum::<u64>());
    }
}

/// Uses one database for all tasks, under a lock of the standard library.
pub async fn shared_database(mut draws: Draws) {
    let (tasks, many) = (draws.within(1, 5), draws.within(1, 100));
    let database = Arc::new(Mutex::new(open()));
    let work = |nth: u64| {
        let database = database.clone();
        spawn(async move {
            add(&mut database.lock().expect("no task panics"), nth * many, (nth + 1) * many);
        })
    };
    all((0..tasks).map(work).collect::<Vec<_>>()).await;
    let database = database.lock().expect("no task panics");
    assert_eq!(sum(&database), (0..tasks * many).sum::<u64>());
}
