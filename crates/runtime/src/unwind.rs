//! Types that a closure may hold across a panic, as [`std::panic::catch_unwind`] asks of it.
//!
//! A panic that passes one of these types leaves no state half changed. The runtime catches the panics of tasks, and
//! its own code calls foreign code only where its state is whole. The compiler cannot see that, because these types own
//! foreign code such as an observer.

use crate::{
    AbortHandle, Group, Handle, JoinHandle, JoinSet, LocalJoinHandle, Runtime, TaskHandle,
};
use std::panic::{RefUnwindSafe, UnwindSafe};

impl UnwindSafe for Runtime {}
impl RefUnwindSafe for Runtime {}

impl UnwindSafe for Handle {}
impl RefUnwindSafe for Handle {}

impl UnwindSafe for Group {}
impl RefUnwindSafe for Group {}

impl UnwindSafe for TaskHandle {}
impl RefUnwindSafe for TaskHandle {}

impl UnwindSafe for AbortHandle {}
impl RefUnwindSafe for AbortHandle {}

impl<T> UnwindSafe for JoinHandle<T> {}
impl<T> RefUnwindSafe for JoinHandle<T> {}

impl<T> UnwindSafe for LocalJoinHandle<T> {}
impl<T> RefUnwindSafe for LocalJoinHandle<T> {}

impl<T> UnwindSafe for JoinSet<T> {}
impl<T> RefUnwindSafe for JoinSet<T> {}
