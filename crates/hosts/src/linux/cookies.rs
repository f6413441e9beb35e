//! Cookies of the kernel (core scheduling, `PR_SCHED_CORE` of prctl(2)).
//!
//! The kernel gives a new cookie to a thread that asks for one, and a thread can take over the cookie of another
//! thread. So each cookie of a scenario has a *keeper*: a thread that asks for the cookie and sleeps until the run is
//! over. A task takes over the keeper's cookie. The first keeper asks for none: a task that takes over from it has no
//! cookie, or the one that this process had at the start.
//!
//! The kernel knows no cookies of task groups. A task in a group with a cookie takes it over itself.

use crate::sync::mpsc::{Receiver, Sender, channel};
use runyard_engine::attr::{Attr, Cookie, GroupId};
use runyard_outcome::Failure;
use runyard_workload::Scenario;
use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::{
    CoreSchedulingScope, create_core_scheduling_cookie, gettid, pull_core_scheduling_cookie,
};
use std::thread::{Builder, JoinHandle};

/// The stack of a keeper, which makes no deep calls.
const STACK_BYTES: usize = 64 << 10;

/// The cookies of a run. They last until this is dropped.
#[derive(Debug)]
pub(super) struct Cookies {
    /// The keepers, by the numbers of the cookies. The one without a cookie is first.
    keepers: Vec<Keeper>,
    /// For each task group, the cookie of tasks that have none of their own.
    of_groups: Vec<Option<Cookie>>,
}

#[derive(Debug)]
struct Keeper {
    thread: Pid,
    /// The channel and the thread; `None` once the keeper was told to end.
    ends: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Cookies {
    /// The cookies of the scenario; `None` if it has none.
    ///
    /// # Errors
    /// If the kernel keeps no cookies here.
    pub(super) fn of(scenario: &Scenario) -> Result<Option<Cookies>, Failure> {
        if scenario.cookies.is_empty() {
            return Ok(None);
        }
        let keepers = (0..=scenario.cookies.len()).map(|nth| Keeper::new(nth > 0));
        let keepers = keepers.collect::<Result<Vec<_>, _>>().map_err(Failure::Refused)?;
        let groups = (0..scenario.groups.len()).map(|at| GroupId(at as u32));
        let of_groups = groups.map(|group| scenario.cookie_of(None, group)).collect();
        Ok(Some(Cookies { keepers, of_groups }))
    }

    /// The cookie of a task with `attr`: its own, or that of its group.
    pub(super) fn wanted(&self, attr: &Attr) -> Option<Cookie> {
        attr.cookie.or(self.of_groups[attr.group.index()])
    }

    /// Gives the calling thread `cookie`, or none.
    pub(super) fn take(&self, cookie: Option<Cookie>) -> Result<(), Errno> {
        let keeper = &self.keepers[cookie.map_or(0, |cookie| cookie.get() as usize)];
        pull_core_scheduling_cookie(keeper.thread, CoreSchedulingScope::Thread)
    }
}

impl Keeper {
    /// A thread with a new cookie, or one that did not ask for a cookie.
    fn new(asks: bool) -> Result<Keeper, String> {
        let (says, said) = channel();
        let (end, ended) = channel();
        let life = move || keep(asks, &says, &ended);
        let builder = Builder::new().name("cookie".to_owned()).stack_size(STACK_BYTES);
        let thread = builder.spawn(life);
        let handle =
            thread.map_err(|error| format!("linux: the kernel makes no thread: {error}"))?;
        let has = said.recv().expect("a keeper says what it has, and then waits");
        Ok(Keeper { thread: has.map_err(refused)?, ends: Some((end, handle)) })
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if let Some((end, handle)) = self.ends.take() {
            drop(end);
            handle.join().expect("a keeper does nothing");
        }
    }
}

/// The life of a keeper.
fn keep(asks: bool, says: &Sender<Result<Pid, Errno>>, ended: &Receiver<()>) {
    let own = gettid();
    let has = match asks {
        true => create_core_scheduling_cookie(own, CoreSchedulingScope::Thread),
        false => Ok(()),
    };
    let stays = has.is_ok();
    if says.send(has.map(|()| own)).is_ok() && stays {
        // No message ever comes: this ends when the other side is dropped.
        let _ = ended.recv();
    }
}

/// The reason why the kernel gives no cookie.
fn refused(why: Errno) -> String {
    match why {
        Errno::NODEV => {
            "linux: the kernel keeps no cookies here: no core has two threads".to_owned()
        }
        Errno::INVAL => "linux: the kernel keeps no cookies: it has no core scheduling".to_owned(),
        why => format!("linux: the kernel refuses a cookie: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runyard_workload::{Overrides, parse};
    use rustix::thread::core_scheduling_cookie;

    fn scenario(text: &str) -> Scenario {
        parse("-", text, &Overrides::default()).expect("a scenario").scenario
    }

    #[test]
    fn nothing_is_asked_of_the_kernel_for_a_scenario_without_cookies() {
        let none = scenario(r#"{"tasks": {"a": {"loop": 1, "cookie": "", "run": 1}}}"#);
        assert!(Cookies::of(&none).expect("none is refused").is_none());
    }

    #[test]
    fn a_thread_has_the_cookie_that_it_took_last() {
        let two = scenario(
            r#"{"groups": {"/g": {"cookie": "x"}}, "tasks": {"a": {"loop": 1, "cookie": "y", "run": 1}}}"#,
        );
        let cookies = match Cookies::of(&two) {
            Ok(cookies) => cookies.expect("it has two"),
            Err(Failure::Refused(why)) => return println!("skipped: {why}"),
            Err(other) => panic!("{other:?}"),
        };
        let life = move || {
            let own =
                || core_scheduling_cookie(gettid(), CoreSchedulingScope::Thread).expect("SMT");
            let began_with = own();
            let had = [1, 2, 1, 0].map(|number| {
                cookies.take(Cookie::new(number)).expect("a thread of this process");
                own()
            });
            assert_eq!((had[0], had[3]), (had[2], began_with));
            assert!(had[0] != had[1] && had[0] != began_with && had[1] != began_with);
        };
        std::thread::spawn(life).join().expect("the thread lives");
    }

    #[test]
    fn what_the_kernel_lacks_is_said() {
        let said = [Errno::NODEV, Errno::INVAL, Errno::PERM].map(refused);
        assert!(said[0].ends_with("no core has two threads"), "{}", said[0]);
        assert!(said[1].ends_with("it has no core scheduling"), "{}", said[1]);
        assert!(said[2].starts_with("linux: the kernel refuses a cookie: "), "{}", said[2]);
    }
}
