//! Core scheduling in a report: what the tasks of each cookie ran, and how long CPUs were forced idle for their sake.

use crate::figure::Figure;
use runyard_engine::attr::Cookie;
use runyard_engine::time::Nanos;
use serde::{Deserialize, Serialize};

/// The tasks of one cookie.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CookieReport {
    /// Its name in the scenario; `None` for the tasks that have none.
    pub name: Option<String>,
    /// What the tasks executed that began with it.
    pub runtime_ns: Figure,
    /// How long CPUs were forced idle because their cores ran tasks of it: the sum over all CPUs.
    pub forced_idle_ns: Figure,
}

/// The cookies with these `names`, in the order of their numbers, and last the lack of one. Nothing if there are none.
/// `ran` are the tasks, each with the cookie with which it began and what it executed.
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

/// The name of a cookie; `None` for none.
pub(crate) fn name(names: &[String], cookie: Option<Cookie>) -> Option<String> {
    cookie.map(|cookie| match names.get(place(Some(cookie)) - 1) {
        Some(name) => name.clone(),
        None => cookie.get().to_string(),
    })
}

/// Where what belongs to a cookie is in a list; what belongs to none is first.
pub(crate) fn place(cookie: Option<Cookie>) -> usize {
    cookie.map_or(0, |cookie| cookie.get() as usize)
}
