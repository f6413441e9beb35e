//! Foreign code that the runtime's own code must not run itself: wakers, destructors and allocators of the program. It is
//! noted in own code, and runs where a thread may wait and may panic.

pub(crate) mod careful;
pub(crate) mod errands;
pub(crate) mod rubbish;
