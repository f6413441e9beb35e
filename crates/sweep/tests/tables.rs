//! Tables in memory: their contents, and that they do not depend on the place of the runs.

use runyard_sweep::{Plan, Runner, Text, gathered, sweep};

const SPEC: &str = r#"{
    "scenario": {
        "machine": {"cpus": 2},
        "groups": {"/web": {}},
        "tasks": {"web": {"instance": 4, "group": "/web", "run": {"exponential": 300}, "sleep": {"exponential": 700}}},
    },
    "set": {"tasks.web.instance": [1, 4]},
    "duration": 0.1,
    "seeds": [7, 3, 5],
    "metrics": ["share(tasks.web)", "tasks.web.switches", "max(tasks.web.switches)", "missed(tasks.web)"],
}"#;

fn plan() -> Plan {
    let spec = Text { file: "spec.json".to_owned(), text: SPEC.to_owned() };
    Plan::new(spec, |_| unreachable!("the scenario is there")).unwrap()
}

#[test]
fn any_number_of_threads_makes_the_same_tables() {
    let plan = plan();
    let one = sweep(&plan, 1, &|| false).unwrap();
    let three = sweep(&plan, 3, &|| false).unwrap();
    assert_eq!((&one.runs, &one.summary), (&three.runs, &three.summary));
    // The runs take place elsewhere, in any order, in a process that has only the plan.
    let elsewhere = self::plan();
    let mut ran: Vec<_> = (0..plan.runs())
        .rev()
        .map(|run| Runner::default().run(&elsewhere, run, &|| false).unwrap())
        .collect();
    ran.reverse();
    let tables = gathered(&plan, &ran);
    assert_eq!((&one.runs, &one.summary), (&tables.runs, &tables.summary));
    assert!(sweep(&plan, 2, &|| true).is_none(), "it was stopped");
}

#[test]
fn a_thread_is_one_row_whatever_its_instances() {
    let tables = sweep(&plan(), 2, &|| false).unwrap();
    let rows: usize = tables.runs.iter().map(arrow_array::RecordBatch::num_rows).sum();
    let balance = tables
        .runs
        .iter()
        .map(|batch| kinds(batch).filter(|kind| *kind == "balance").count())
        .sum::<usize>();
    assert_eq!(rows - balance, 6 * 4, "the machine, a thread, and two groups");
    let names: Vec<_> =
        tables.summary.schema().fields().iter().map(|field| field.name().clone()).collect();
    assert_eq!(names, ["tasks.web.instance", "metric", "n", "mean", "median", "lo", "hi"]);
    let column = |name: &str| tables.summary.column_by_name(name).unwrap().clone();
    let means = column("mean");
    let means = means.as_any().downcast_ref::<arrow_array::Float64Array>().unwrap();
    // With one instance, sum and maximum are the same; with four, the sum is larger.
    assert_eq!(means.value(1), means.value(2));
    assert!(means.value(5) > 2.0 * means.value(6), "{means:?}");
}

fn kinds(batch: &arrow_array::RecordBatch) -> impl Iterator<Item = &str> {
    let kinds = batch.column_by_name("kind").unwrap().as_any();
    kinds.downcast_ref::<arrow_array::StringArray>().unwrap().iter().flatten()
}

#[test]
fn a_run_that_fails_is_a_row_with_its_reason() {
    let plan = plan();
    let mut ran: Vec<_> =
        (0..plan.runs()).map(|run| Runner::default().run(&plan, run, &|| false).unwrap()).collect();
    ran[1].error = Some("a reason".to_owned());
    ran[1].rows.truncate(1);
    ran[1].rows[0].fields.clear();
    ran[1].metrics = vec![None; plan.metrics().len()];
    let tables = gathered(&plan, &ran);
    let batch = &tables.runs[1];
    let errors = batch.column_by_name("error").unwrap().as_any();
    let errors: Vec<_> =
        errors.downcast_ref::<arrow_array::StringArray>().unwrap().iter().collect();
    assert_eq!(errors, [Some("a reason")]);
    let count = tables.summary.column_by_name("n").unwrap().clone();
    let count = count.as_any().downcast_ref::<arrow_array::Int64Array>().unwrap();
    assert_eq!((count.value(0), count.value(4)), (2, 3));
}

/// Returns the numbers of seeds in the table of statistics, for each point and metric.
fn seeds(tables: &runyard_sweep::Tables) -> Vec<i64> {
    let count = tables.summary.column_by_name("n").unwrap().clone();
    let count = count.as_any().downcast_ref::<arrow_array::Int64Array>().unwrap();
    count.values().to_vec()
}

#[test]
fn a_precision_takes_as_many_seeds_as_the_width_needs() {
    let spec = SPEC.replace("[7, 3, 5]", "2").replace(r#", "missed(tasks.web)""#, "");
    let plan = || {
        let spec = Text { file: "spec.json".to_owned(), text: spec.clone() };
        Plan::new(spec, |_| unreachable!("the scenario is there")).unwrap()
    };
    let tables = |precision, jobs| {
        sweep(&plan().with_precision(precision).unwrap(), jobs, &|| false).unwrap()
    };
    assert_eq!(seeds(&tables(1e9, 2)), [10; 6], "ten at least");
    let (one, three) = (tables(0.1, 1), tables(0.1, 3));
    assert_eq!((&one.runs, &one.summary), (&three.runs, &three.summary));
    let taken = seeds(&one);
    assert!(taken.iter().all(|it| *it >= 10 && it % 10 == 0) && taken[0] > 10, "{taken:?}");
    let column = |name: &str| {
        let column = one.summary.column_by_name(name).unwrap().clone();
        column.as_any().downcast_ref::<arrow_array::Float64Array>().unwrap().values().to_vec()
    };
    let (mean, low, high) = (column("mean"), column("lo"), column("hi"));
    assert!((0..6).all(|at| high[at] - low[at] <= 0.1 * mean[at]), "{low:?} {high:?}");
    let runs: usize =
        one.runs.iter().map(|batch| kinds(batch).filter(|it| *it == "machine").count()).sum();
    assert_eq!(runs as i64, taken[0] + taken[3], "a run that is not needed has no row");
    let listed = self::plan().with_precision(0.1).unwrap_err();
    assert_eq!(listed, "a precision takes 10 seeds at least, and 3 are listed");
}
