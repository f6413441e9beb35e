//! Every operation of the benches in time, by criterion.

use criterion::{Criterion, criterion_group, criterion_main};
use runyard_benches::operations;
use std::time::{Duration, Instant};

/// What each operation takes in all is about a second: set-up, this, and the samples.
const WARM_UP: Duration = Duration::from_millis(200);

/// For all samples of an operation.
const MEASUREMENT: Duration = Duration::from_millis(600);

/// The least that criterion takes; there are many operations, and medians are compared.
const SAMPLES: usize = 10;

fn measure(criterion: &mut Criterion) {
    for operation in operations() {
        let mut prepared = None;
        criterion.bench_function(operation.name(), |bencher| {
            let run = prepared.get_or_insert_with(|| operation.prepare());
            bencher.iter_custom(|times| {
                let begin = Instant::now();
                run(times);
                begin.elapsed()
            });
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(WARM_UP)
        .measurement_time(MEASUREMENT)
        .sample_size(SAMPLES);
    targets = measure
}
criterion_main!(benches);
