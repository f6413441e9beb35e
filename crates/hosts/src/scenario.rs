//! What a report says of a scenario itself, on any host.

use runyard_engine::attr::GroupId;
use runyard_engine::features::{Feature, Features};
use runyard_report::{GroupInfo, GroupUsage};
use runyard_workload::Scenario;
use runyard_workload::scenario::TaskGroup;

/// The task groups of a scenario as reports have them. `usage` says what the limit of a group did,
/// in total and on each CPU.
pub fn groups(
    scenario: &Scenario,
    usage: impl Fn(GroupId) -> Option<GroupUsage>,
) -> Vec<GroupInfo> {
    let group = |(id, group): (GroupId, &TaskGroup)| GroupInfo {
        path: group.path.clone(),
        parent: (group.path != "/").then_some(group.spec.parent),
        limit: group.spec.limit,
        usage: usage(id),
    };
    (0..).map(GroupId).zip(&scenario.groups).map(group).collect()
}

/// The names of the features that are on.
#[must_use]
pub fn feature_names(features: &Features) -> Vec<String> {
    let on = |feature: &&Feature| features.has(**feature);
    Feature::ALL.iter().filter(on).map(|feature| feature.name().to_owned()).collect()
}
