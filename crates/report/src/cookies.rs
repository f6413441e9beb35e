//! Core scheduling in a report: the runtime of the tasks of each cookie, and the idle time that they forced on CPUs.

use crate::column::Place::{Page, Text};
use crate::column::{columns, figures, part, spanned, texts};
use crate::figure::Figure;
use crate::names::shortened;
use runyard_engine::attr::Cookie;
use runyard_engine::time::Nanos;
use serde::{Deserialize, Serialize};

/// The name of the tasks without a cookie, for people.
const NO_COOKIE: &str = "(none)";

columns! {
    /// The tasks of one cookie.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct CookieReport from(given: Option<String>, runtime: Nanos, forced: Figure) {
        /// Its name in the scenario; `null` for the tasks without a cookie.
        name: Option<String> = given, [
            texts(&[(Text, "cookie")], |it, _| it.name.as_deref().map_or_else(|| NO_COOKIE.to_owned(), shortened)),
            texts(&[(Page, "cookie")], |it, _| it.name.as_deref().unwrap_or(NO_COOKIE).to_owned()),
        ];
        /// The runtime of the tasks that began with it.
        runtime_ns: Figure = Some(runtime.0), [
            figures(&[(Text, "runtime"), (Page, "runtime")], |it, _| spanned(it.runtime_ns)),
            figures(&[(Text, "%cpu"), (Page, "% of a CPU")], |it, row| part(it.runtime_ns, row.whole_ns)),
        ];
        /// The time that CPUs were forced idle because their cores ran tasks of it: the sum over all CPUs.
        forced_idle_ns: Figure = forced, [
            figures(&[(Text, "forced idle"), (Page, "forced idle")], |it, _| spanned(it.forced_idle_ns)),
            figures(&[(Text, "%cpu"), (Page, "% of a CPU")], |it, row| part(it.forced_idle_ns, row.whole_ns)),
        ];
    }
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
    let report = |cookie: Option<Cookie>| {
        CookieReport::of(name(names, cookie), runtimes[place(cookie)], forced_idle(cookie))
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
