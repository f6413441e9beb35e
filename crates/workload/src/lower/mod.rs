//! From JSON values to a [`Scenario`].
//!
//! The sections are read in the order of their dependencies, not in the file's order. The machine and the groups
//! precede the tasks, which name CPUs and groups. The tasks follow in file order. The last checks need all tasks
//! ([`ends`]).
//!
//! Each section has a file here, with one `match` over its keys. So the known, the refused and the ignored keys are in
//! one place.

mod arrivals;
mod chains;
mod context;
mod cookies;
mod cpus;
mod deadline;
mod duration;
mod ends;
mod event;
mod fields;
mod global;
mod group_keys;
mod groups;
mod limits;
mod machine;
mod memory;
mod mutexes;
mod number;
mod objects;
mod partitions;
mod policy;
mod properties;
mod scheduler;
mod tasks;
mod tick_lock;
mod timeline;
mod vain_cpus;
mod values;
mod warnings;
mod window;

use crate::diagnostic::{Fault, quoted};
use crate::json::Node;
use crate::nearest::nearest;
use crate::overrides::Overrides;
use crate::scenario::Scenario;
use crate::shape;
use context::Context;
use cookies::Cookies;
use group_keys::Reader;
use groups::Groups;
use objects::Names;
use runyard_engine::features::{Feature, Features, Switched, UnknownFeature};
use runyard_engine::kernel::Model;
use runyard_engine::rules::{Deadline, Short};
use std::path::Path;
use warnings::Warnings;

/// Returns the scenario that `root` describes, and the warnings about it. `file` is its name.
pub(crate) fn scenario(
    file: &str,
    root: Node<'_>,
    over: &Overrides,
) -> Result<(Scenario, Vec<Fault>), Fault> {
    let mut warnings = Warnings::default();
    let sections = Sections::read(root, &mut warnings)?;
    let global = global::read(sections.global, over.deadline, &mut warnings)?;
    let (machine, model) = machine::read(sections.machine, over, &mut warnings)?;
    let features = features(model, (sections.features, sections.groups), over)?;
    let tuned = scheduler::read(sections.scheduler, model, machine.config(model, features))?;
    resources(sections.resources, &mut warnings)?;
    let mut cookies = Cookies::default();
    let cpus = machine.topology.cpus();
    let reader = Reader { model, cpus, cookies: &mut cookies, warnings: &mut warnings };
    let groups = Groups::read(sections.groups, &machine.isolated, reader)?;
    let (deadline, names) = (over.deadline, Names::default());
    let folder = Path::new(file).parent().unwrap_or(Path::new("")).to_owned();
    let mut context = Context { folder, cpus, model, deadline, groups, cookies, warnings, names };
    let Some(listed) = sections.tasks else {
        return Err(Fault::new(root.at(), "a scenario needs `tasks`"));
    };
    let tasks = tasks::read(listed, global.default_policy, &mut context)?;
    for (at, name) in context.names.resumed_in_vain() {
        let what = format!("no task called {} is ever suspended", quoted(name));
        context.warnings.instead(at, what);
    }
    if !over.real_cores {
        context.cookies.warn_of_no_effect(machine.topology, &mut context.warnings);
    }
    let timeline = timeline::read(sections.timeline, &tasks, &mut context)?;
    let arrivals = arrivals::read(sections.arrivals, &tasks, &mut context)?;
    if tasks.iter().all(|task| task.spec.instances == 0) && !arrivals::start_tasks(&arrivals) {
        return Err(Fault::new(listed.at(), "no task has an instance"));
    }
    if over.real_cores {
        timeline::refuse_on_real_cpus(sections.timeline)?;
        arrivals::refuse_on_real_cpus(&arrivals)?;
    }
    let kinds = mutexes::read(sections.mutexes, global.pi_enabled)?;
    let objects = context.names.into_objects(&kinds);
    kinds.warn_of_unknown(&objects, &mut context.warnings);
    let (from, duration) = window::read(over.window, over.duration.or(global.duration))?;
    ends::check(&tasks, &objects, &arrivals, duration.is_some())?;
    tick_lock::warn(&tasks, &machine, &mut context.warnings);
    let groups = context.groups.into_all();
    vain_cpus::warn(&tasks, &groups, (cpus, &machine.isolated), &mut context.warnings);
    let tasks: Vec<_> = tasks.into_iter().map(|task| task.spec).collect();
    let mut chains = chains::read(sections.chains, &tasks)?;
    arrivals::add_chains(&arrivals, &tasks, &mut chains)?;
    let scenario = Scenario {
        chains,
        arrivals: arrivals.into_iter().map(|it| it.spec).collect(),
        timeline,
        from,
        duration,
        log: global.log,
        machine,
        model,
        features,
        tuned,
        groups,
        cookies: context.cookies.into_names(),
        tasks,
        objects,
    };
    Ok((scenario, context.warnings.into_faults()))
}

/// The top level of the file.
#[derive(Default)]
struct Sections<'v> {
    global: Option<Node<'v>>,
    resources: Option<Node<'v>>,
    tasks: Option<Node<'v>>,
    machine: Option<Node<'v>>,
    scheduler: Option<Node<'v>>,
    features: Option<Node<'v>>,
    groups: Option<Node<'v>>,
    mutexes: Option<Node<'v>>,
    arrivals: Option<Node<'v>>,
    chains: Option<Node<'v>>,
    timeline: Option<Node<'v>>,
}

impl<'v> Sections<'v> {
    fn read(root: Node<'v>, warnings: &mut Warnings) -> Result<Sections<'v>, Fault> {
        let mut sections = Sections::default();
        for member in root.object()? {
            let section = match &*member.key() {
                "global" => &mut sections.global,
                "resources" => &mut sections.resources,
                "tasks" => &mut sections.tasks,
                "machine" => &mut sections.machine,
                "scheduler" => &mut sections.scheduler,
                "features" => &mut sections.features,
                "groups" => &mut sections.groups,
                "mutexes" => &mut sections.mutexes,
                "arrivals" => &mut sections.arrivals,
                "chains" => &mut sections.chains,
                "timeline" => &mut sections.timeline,
                _ => {
                    warnings.unknown(member, shape::ROOT);
                    continue;
                }
            };
            *section = Some(member.value);
        }
        Ok(sections)
    }
}

/// Returns the features of the model, switched by the file and then by the command line.
fn features(
    model: Model,
    (listed, groups): (Option<Node<'_>>, Option<Node<'_>>),
    over: &Overrides,
) -> Result<Features, Fault> {
    let mut switches = Vec::new();
    for node in listed.map(Node::list).transpose()?.into_iter().flatten() {
        let switch: Switched =
            node.text()?.parse().map_err(|unknown| unknown_feature(node, &unknown))?;
        switches.push((node.at(), switch));
    }
    switches.extend(over.features.iter().map(|&switch| (Fault::NOWHERE, switch)));
    let mut features = model.features();
    switches.iter().for_each(|&(_, switch)| features.set(switch));
    for (at, Switched { feature, on }) in switches {
        if on && features.has(feature) {
            has_effect(model, features, feature).map_err(|what| Fault::new(at, what))?;
            if feature == Feature::RuntimeShare && features.has(Feature::CfsBandwidth) {
                shares(groups, at)?;
            }
        }
    }
    Ok(features)
}

/// Returns an error at `at` if no group uses the founding pool, although limits follow the kernel's control.
fn shares(groups: Option<Node<'_>>, at: usize) -> Result<(), Fault> {
    for group in groups.map(Node::object).transpose()?.into_iter().flatten() {
        let mut keys = group.value.object()?;
        if keys.any(|member| member.key() == "per_cpu") {
            return Ok(());
        }
    }
    let what = "RUNTIME_SHARE belongs to the founding pool, and with CFS_BANDWIDTH only groups with `per_cpu` have it";
    Err(Fault::new(at, what.to_owned()))
}

fn unknown_feature(node: Node<'_>, unknown: &UnknownFeature) -> Fault {
    let (no, name) = unknown.0.strip_prefix("NO_").map_or(("", &*unknown.0), |name| ("NO_", name));
    let near = nearest(name, Feature::ALL.iter().map(|feature| feature.name()));
    Fault::new(
        node.at(),
        match near {
            Some(near) => {
                format!("unknown feature {}; did you mean \"{no}{near}\"?", quoted(&unknown.0))
            }
            None => unknown.to_string(),
        },
    )
}

/// Returns an error if a feature that is requested by name lacks its prerequisites.
fn has_effect(model: Model, features: Features, feature: Feature) -> Result<(), String> {
    let (name, eevdf, rules) = (feature.name(), features.has(Feature::Eevdf), model.rules());
    let lacks = |it: bool| match it {
        true => Err(format!("{name} changes no rule of {model}")),
        false => Ok(()),
    };
    match feature {
        Feature::GentleFairSleepers if eevdf => {
            Err(format!("{name} says how CFS credits sleepers, and EEVDF is on"))
        }
        Feature::RunToParity
        | Feature::PreemptShort
        | Feature::PlaceRelDeadline
        | Feature::DelayDequeue
            if !eevdf =>
        {
            Err(format!("{name} is a part of EEVDF, and that is off"))
        }
        Feature::NiRandom if !features.has(Feature::BalanceByRoom) => {
            Err(format!("{name} is a part of BALANCE_BY_ROOM, and that is off"))
        }
        Feature::SisUtil if !features.has(Feature::Pelt) => {
            Err(format!("{name} goes by the averages of PELT, and that is off"))
        }
        Feature::CfsBandwidth if !features.has(Feature::HardLimits) => {
            Err(format!("{name} controls limits, and HARD_LIMITS is off"))
        }
        Feature::PreemptShort => lacks(rules.short == Short::Ignored),
        Feature::PlaceRelDeadline => lacks(rules.moves == Deadline::Anew),
        _ => Ok(()),
    }
}

/// Checks the section `resources`, in which old files declare their mutexes and other objects. Objects exist by being
/// used, so the section has no effect.
fn resources(listed: Option<Node<'_>>, warnings: &mut Warnings) -> Result<(), Fault> {
    for resource in listed.map(Node::object).transpose()?.into_iter().flatten() {
        for member in resource.value.object()? {
            match &*member.key() {
                "type" | "target" => {
                    member.value.text()?;
                }
                _ => warnings.unknown(member, shape::RESOURCE),
            }
        }
    }
    Ok(())
}
