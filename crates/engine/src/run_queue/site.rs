//! What a run queue knows of its CPU beside the tasks: its number, its clock, the configuration, and the groups of the
//! machine.

use crate::attr::{Cookie, GroupId};
use crate::config::Config;
use crate::cpu::CpuId;
use crate::fair::entity::Now;
use crate::features::Feature;
use crate::limits::Pools;
use crate::limits::grants::Kind;
use crate::limits::here::Here;
use crate::task::Task;
use crate::time::Time;
use std::sync::Arc;

/// The CPU of a run queue.
#[derive(Debug)]
pub struct Site<G> {
    cpu: CpuId,
    config: Arc<Config>,
    groups: Arc<G>,
    online: bool,
    clock: Time,
}

impl<G: Pools> Site<G> {
    /// Returns a CPU that is online, at the beginning of time.
    pub(super) fn new(cpu: CpuId, config: Arc<Config>, groups: Arc<G>) -> Site<G> {
        Site { cpu, config, groups, online: true, clock: Time::ZERO }
    }

    /// Returns the CPU.
    #[inline]
    #[must_use]
    pub fn cpu(&self) -> CpuId {
        self.cpu
    }

    /// Returns the configuration.
    #[inline]
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Replaces the configuration, and returns the one before.
    pub(super) fn set_config(&mut self, config: Arc<Config>) -> Arc<Config> {
        std::mem::replace(&mut self.config, config)
    }

    #[inline]
    pub(super) fn has(&self, feature: Feature) -> bool {
        self.config.features.has(feature)
    }

    #[inline]
    pub(super) fn groups(&self) -> &G {
        &self.groups
    }

    /// Returns whether the CPU takes tasks.
    #[inline]
    #[must_use]
    pub fn is_online(&self) -> bool {
        self.online
    }

    pub(super) fn set_online(&mut self, online: bool) {
        self.online = online;
    }

    #[inline]
    pub(super) fn clock(&self) -> Time {
        self.clock
    }

    /// Brings the clock up to `now`. It never runs back.
    #[inline]
    pub(super) fn advance(&mut self, now: Time) {
        self.clock = self.clock.max(now);
    }

    /// Returns the arguments that the methods of the fair class need.
    #[inline]
    pub(super) fn now(&self) -> Now<'_> {
        Now { clock: self.clock, config: &self.config }
    }

    /// Returns the kind of a group's limit, if it has one.
    pub(super) fn kind_of_limit(&self, group: GroupId) -> Option<Kind> {
        if !self.groups.has_bandwidth(group) {
            return self.groups.has_limit(group).then_some(Kind::Pool);
        }
        self.groups.with_bandwidth(group, |it| Kind::Bandwidth { epoch: it.epoch() })
    }

    /// Returns the arguments that the methods of the limits need.
    #[inline]
    pub(super) fn here(&self) -> Here<'_, G> {
        Here { now: self.clock, cpu: self.cpu, pools: &self.groups }
    }

    /// Returns the next tick after the present one.
    #[inline]
    pub(super) fn next_tick(&self) -> Time {
        self.config.next_tick(self.cpu, self.clock)
    }

    /// Returns the cookie of a task that is here or comes here: its own, or that of its group.
    #[must_use]
    pub fn cookie_of<P>(&self, task: &Task<P>) -> Option<Cookie> {
        self.groups.cookie_of(&task.attr)
    }

    /// Returns whether a task may be here: the CPU is online, and the task's affinity has it.
    #[inline]
    pub(super) fn takes<P>(&self, task: &Task<P>) -> bool {
        self.online && task.attr.affinity.contains(self.cpu)
    }

    /// Returns whether `group` is `other` or below it.
    pub(super) fn is_within(&self, mut group: GroupId, other: GroupId) -> bool {
        while group != other && group != GroupId::ROOT {
            group = self.groups.parent(group);
        }
        group == other
    }
}
