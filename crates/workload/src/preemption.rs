//! The preemption models of a kernel: where a task in the kernel gives way.

use std::fmt;
use std::str::FromStr;

/// The preemption model of a machine's kernel. A task in user mode gives way at once under each model. A task that works
/// in the kernel gives way where its model says.
///
/// Source: `Documentation/admin-guide/kernel-parameters.txt`, `preempt=`, and the table above `preempt_dynamic_none` in
/// `kernel/sched/core.c`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preemption {
    /// A task gives way when it returns to user mode (`CONFIG_PREEMPT_NONE`).
    None,
    /// A task also gives way at the points where a system call may sleep (`might_resched`, `CONFIG_PREEMPT_VOLUNTARY`).
    Voluntary,
    /// A task gives way to a real-time task at once. It gives way to a fair task when it returns to user mode, or at
    /// the tick after the request. The request itself does not interrupt another CPU (`CONFIG_PREEMPT_LAZY`, from
    /// 6.13).
    Lazy,
    /// A task gives way at once (`CONFIG_PREEMPT`).
    #[default]
    Full,
}

impl Preemption {
    /// All models, from the one with the longest delays to the one with the shortest.
    pub const ALL: [Preemption; 4] =
        [Preemption::None, Preemption::Voluntary, Preemption::Lazy, Preemption::Full];

    /// Returns the name, as the kernel parameter `preempt` has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Preemption::None => "none",
            Preemption::Voluntary => "voluntary",
            Preemption::Lazy => "lazy",
            Preemption::Full => "full",
        }
    }

    /// Returns the model in the text of `/sys/kernel/debug/sched/preempt`, which has the current model in parentheses.
    ///
    /// ```
    /// use runyard_workload::scenario::Preemption;
    ///
    /// let lazy = Preemption::of_debugfs("none voluntary full (lazy) ");
    /// assert_eq!(lazy, Some(Preemption::Lazy));
    /// assert_eq!(Preemption::of_debugfs("none voluntary full"), None);
    /// ```
    #[must_use]
    pub fn of_debugfs(text: &str) -> Option<Preemption> {
        let current = |word: &str| word.strip_prefix('(')?.strip_suffix(')')?.parse().ok();
        text.split_whitespace().find_map(current)
    }
}

impl fmt::Display for Preemption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The name of no preemption model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownPreemption;

impl fmt::Display for UnknownPreemption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Preemption::ALL.map(|model| format!("\"{model}\""));
        write!(f, "expected a preemption model: {}", names.join(", "))
    }
}

impl std::error::Error for UnknownPreemption {}

impl FromStr for Preemption {
    type Err = UnknownPreemption;

    fn from_str(name: &str) -> Result<Preemption, UnknownPreemption> {
        Preemption::ALL.into_iter().find(|model| model.name() == name).ok_or(UnknownPreemption)
    }
}
