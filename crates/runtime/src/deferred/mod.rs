//! Foreign code that the runtime's own code must not run itself: wakers, destructors and allocators of the program. Own
//! code notes the call, which runs later where a thread may wait and may panic.

pub(crate) mod careful;
pub(crate) mod errands;
pub(crate) mod rubbish;
