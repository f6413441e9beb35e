//! Core scheduling in a report: the runtime of the tasks of each cookie, and the idle time that they forced on CPUs.

use crate::figure::Figure;
use runyard_engine::attr::Cookie;
use runyard_engine::time::Nanos;
use serde::{Deserialize, Serialize};

/// The tasks of one cookie.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CookieReport {
    /// Its name in the scenario; `None` for the tasks without a cookie.
    pub name: Option<String>,
    /// The runtime of the tasks that began with it.
    pub runtime_ns: Figure,
    /// The time that CPUs were forced idle because their cores ran tasks of it: the sum over all CPUs.
    pub forced_idle_ns: Figure,
}

/// The reports of the cookies with these `names`, in the order of their numbers, and last of the tasks without a
/// cookie. Empty if there are no cookies. `ran` has the tasks, each with its first cookie and its runtime.
pub fn cookie_reports(
    names: &[String],
    ran: impl IntoIterator<Item = (Option<Cookie>, Nanos)>,
    forced_idle: impl Fn(Option<Cookie>) -> Figure,
) -> Vec<CookieReport> {
    if names.is_empty() {
        return Vec::new();
    }
    let mut runtimes = vec![Nanos::ZERO; names.len() + 1];
    for (cookie, runtime) in ran {
        runtimes[place(cookie)] += runtime;
    }
    let report = |cookie: Option<Cookie>| CookieReport {
        name: name(names, cookie),
        runtime_ns: Some(runtimes[place(cookie)].0),
        forced_idle_ns: forced_idle(cookie),
    };
    (1..=names.len()).map(|nth| Cookie::new(nth as u32)).chain([None]).map(report).collect()
}

/// The name of a cookie; `None` without one.
pub(crate) fn name(names: &[String], cookie: Option<Cookie>) -> Option<String> {
    cookie.map(|cookie| match names.get(place(Some(cookie)) - 1) {
        Some(name) => name.clone(),
        None => cookie.get().to_string(),
    })
}

/// The index of a cookie in a list. The index of no cookie is 0.
pub(crate) fn place(cookie: Option<Cookie>) -> usize {
    cookie.map_or(0, |cookie| cookie.get() as usize)
}
