//! Performs one operation of a task many times. `cargo xtask price` runs it under callgrind and beside tracepoints.

use clap::Parser;
use runyard_benches::live::Side;
use runyard_benches::live::price::Price;

/// Perform an operation of a task on one worker
#[derive(Debug, Parser)]
struct Arguments {
    /// The runtime
    side: Side,
    /// The operation
    price: Price,
    /// The number of times; the operation may take a multiple of its own
    times: u64,
}

fn main() {
    let Arguments { side, price, times } = Arguments::parse();
    price.perform(side, times.next_multiple_of(price.step()));
}
