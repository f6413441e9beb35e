//! The models of the protocols: `src/protocol`, and the files below it, with loom's primitives. The models stand beside
//! the code. The library itself is empty in such a build.
#![cfg(loom)]

#[path = "../src/os"]
#[expect(unsafe_code, reason = "a model of that folder")]
mod os {
    pub(crate) mod biased;
    pub(crate) mod list;
    #[expect(dead_code, reason = "other modules use the rest")]
    pub(crate) mod local;
    pub(crate) mod seat;
    pub(crate) mod sync;
    pub(crate) mod wait;
}
#[path = "../src/protocol/mod.rs"]
mod protocol;
