//! Measures the time of every operation of the benches with criterion.

use criterion::{Criterion, criterion_group, criterion_main};
use runyard_benches::operations;
use std::time::{Duration, Instant};

/// Warm-up time of an operation. Set-up, warm-up and samples together take about a second.
const WARM_UP: Duration = Duration::from_millis(200);

/// Measurement time for all samples of an operation.
const MEASUREMENT: Duration = Duration::from_millis(600);

/// Criterion's minimum number of samples. It suffices because medians are compared, and there are many operations.
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
