//! The programs of the README and of the book, which compile and run as tests of the documentation.

#[doc = include_str!("../../../README.md")]
struct Readme;

#[doc = include_str!("../../../docs/start/program.md")]
struct FirstProgram;

#[doc = include_str!("../../../docs/guides/priorities.md")]
struct Priorities;

#[doc = include_str!("../../../docs/guides/cpu-bound.md")]
struct CpuBound;

#[doc = include_str!("../../../docs/guides/background.md")]
struct Background;

#[doc = include_str!("../../../docs/guides/tenant-limit.md")]
struct TenantLimit;

#[doc = include_str!("../../../docs/guides/timers.md")]
struct Timers;

#[doc = include_str!("../../../docs/guides/tests.md")]
struct Tests;

#[doc = include_str!("../../../docs/guides/containers.md")]
struct Containers;

#[doc = include_str!("../../../docs/guides/fork.md")]
struct Fork;

#[doc = include_str!("../../../docs/guides/pitfalls.md")]
struct Pitfalls;
