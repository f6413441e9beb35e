//! The kernel's own description of the machine.

use crate::clock;
use crate::machine;
use flate2::read::GzDecoder;
use runyard::kernel::Mount;
use runyard_engine::topology::Topology;
use runyard_outcome::Failure;
use std::fs::{File, read_to_string};
use std::io::Read as _;

/// The beginnings of the words on the kernel's command line that change its scheduling.
const SCHEDULING: [&str; 2] = ["sched_", "preempt="];

/// The kernel's release, and the words on its command line about scheduling.
pub(super) fn kernel() -> String {
    let release = machine::release().unwrap_or_default();
    let line = read_to_string("/proc/cmdline").unwrap_or_default();
    let about = |word: &&str| SCHEDULING.iter().any(|begin| word.starts_with(begin));
    let words = line.split_whitespace().filter(about);
    std::iter::once(&*release).chain(words).collect::<Vec<_>>().join(" ")
}

/// The ticks a second. The coarse clock advances once a tick, and its resolution is exact.
pub(super) fn tick_hz() -> Result<u32, Failure> {
    let tick = clock::coarse_resolution().0;
    let hz = 1_000_000_000_u64.checked_div(tick).and_then(|hz| u32::try_from(hz).ok());
    hz.filter(|&hz| hz > 0)
        .ok_or_else(|| Failure::Refused("the kernel's tick is unknown".to_owned()))
}

/// The load, in per cent of a busy CPU, up to which a guest's kernel packs waking tasks on it. The patch reads a word
/// on the kernel's command line and has no documentation. With `sched_vcpu_pack=15` a busy CPU keeps the task if fair
/// tasks, including that task, use less than 67 to 68 % of it. That is 80 % (`fits_capacity` of `fair.c`) of 85 %.
pub(super) fn packs_below() -> Option<u32> {
    packs_by(&read_to_string("/proc/cmdline").unwrap_or_default())
}

fn packs_by(line: &str) -> Option<u32> {
    let word = line.split_whitespace().find_map(|word| word.strip_prefix("sched_vcpu_pack="))?;
    let left = 100_u32.checked_sub(word.parse().ok()?)?;
    Some(left * 80 / 100).filter(|&most| most > 0)
}

/// Whether the kernel schedules groups of real-time tasks (`CONFIG_RT_GROUP_SCHED`). Their budgets are files in the
/// hierarchy that controls CPU time; otherwise the kernel's build options tell. If neither exists, a note says so.
pub(super) fn rt_group_sched(notes: &mut Vec<String>) -> bool {
    if has_rt_budgets(&read_to_string("/proc/self/mountinfo").unwrap_or_default()) {
        return true;
    }
    let Some(build) = build() else {
        let what = "rt_group_sched: the kernel does not say how it was built; it counts as false";
        notes.push(what.to_owned());
        return false;
    };
    is_built_in(&build, "RT_GROUP_SCHED")
}

fn has_rt_budgets(mounts: &str) -> bool {
    let mut mounts = mounts.lines().filter_map(Mount::read);
    mounts.any(|mount| mount.controls("cpu") && mount.at.join("cpu.rt_runtime_us").exists())
}

/// The options that the kernel was built with, if it provides them (`CONFIG_IKCONFIG_PROC`).
fn build() -> Option<String> {
    let mut text = String::new();
    let file = File::open("/proc/config.gz").ok()?;
    GzDecoder::new(file).read_to_string(&mut text).ok()?;
    Some(text)
}

fn is_built_in(build: &str, option: &str) -> bool {
    build.lines().any(|line| line == format!("CONFIG_{option}=y"))
}

/// The cache and the core that a CPU shares with other CPUs, each as the kernel's list of CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Shares {
    cache: String,
    core: String,
}

/// The topology of these CPUs. A machine with another numbering than the simulator's, or with nodes of several sizes,
/// counts as flat; a note says so.
pub(super) fn topology(cpus: &[usize], notes: &mut Vec<String>) -> Topology {
    let shares: Vec<_> = cpus.iter().map(|&cpu| shares(cpu)).collect();
    let flat = || {
        Topology::flat(cpus.len() as u32).expect("a process has CPUs, and no more than a machine")
    };
    shape(&shares).unwrap_or_else(|| {
        notes.push(
            "topology: the CPUs are not numbered node by node and core by core; they count as one node".to_owned(),
        );
        flat()
    })
}

/// The kernel's description of one CPU. Where the kernel gives none, the CPU is a core, and all CPUs share a cache.
fn shares(cpu: usize) -> Shares {
    let folder = format!("/sys/devices/system/cpu/cpu{cpu}");
    let read = |path: &str| read_to_string(format!("{folder}/{path}")).ok();
    let largest = (0..).map_while(|at| read(&format!("cache/index{at}/shared_cpu_list"))).last();
    Shares {
        cache: largest.or_else(|| read("topology/package_cpus_list")).unwrap_or_default(),
        core: read("topology/core_cpus_list").unwrap_or_else(|| cpu.to_string()),
    }
}

/// The topology, if the CPUs that share a cache or a core are neighbours, and all such sets have the same size.
fn shape(cpus: &[Shares]) -> Option<Topology> {
    let node = stretch(cpus, |cpu| &cpu.cache)?;
    let core = stretch(cpus, |cpu| &cpu.core)?;
    if !node.is_multiple_of(core) {
        return None;
    }
    let count = |number: usize| u32::try_from(number).ok();
    Topology::new(count(cpus.len() / node)?, count(node / core)?, count(core)?).ok()
}

/// The number of neighbours with the same key, if all such runs have the same length and no key comes back.
fn stretch<'a>(cpus: &'a [Shares], key: impl Fn(&'a Shares) -> &'a String) -> Option<usize> {
    let keys: Vec<_> = cpus.iter().map(key).collect();
    let stretches: Vec<_> = keys.chunk_by(|a, b| a == b).collect();
    let length = stretches.first()?.len();
    let again = |at: usize| stretches[..at].iter().any(|before| before[0] == stretches[at][0]);
    let even = stretches.iter().all(|stretch| stretch.len() == length);
    (even && !(0..stretches.len()).any(again)).then_some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CPUs from the names of their caches and of their cores.
    fn cpus(caches: &str, cores: &str) -> Vec<Shares> {
        let pairs = caches.chars().zip(cores.chars());
        pairs.map(|(cache, core)| Shares { cache: cache.into(), core: core.into() }).collect()
    }

    #[test]
    fn a_guest_packs_below_four_fifths_of_what_its_word_leaves() {
        let cases =
            [("a sched_vcpu_pack=15 b", Some(68)), ("sched_vcpu_pack=0", Some(80)), ("", None)];
        for (line, most) in
            cases.into_iter().chain([("sched_vcpu_pack=x", None), ("sched_vcpu_pack=100", None)])
        {
            assert_eq!(packs_by(line), most, "{line}");
        }
    }

    #[test]
    fn a_machine_in_the_simulators_order_has_its_shape() {
        let shape = |caches, cores| shape(&cpus(caches, cores)).map(|shape| shape.to_string());
        assert_eq!(shape("aa", "01").as_deref(), Some("1x2"));
        assert_eq!(shape("aaaabbbb", "00112233").as_deref(), Some("2x2x2"));
        assert_eq!(shape("aabb", "0123").as_deref(), Some("2x2"));
        assert_eq!(shape("aaaa", "0101"), None, "siblings are no neighbours");
        assert_eq!(shape("aab", "012"), None, "nodes of two sizes");
        assert_eq!(shape("abab", "0123"), None, "nodes by turns");
    }

    #[test]
    fn an_option_is_built_in_if_the_line_says_so() {
        let build = "CONFIG_CFS_BANDWIDTH=y\n# CONFIG_RT_GROUP_SCHED is not set\nCONFIG_RT_GROUP_SCHED_X=y\nCONFIG_MODULE=m\n";
        let options = ["CFS_BANDWIDTH", "RT_GROUP_SCHED", "MODULE", "X"];
        assert_eq!(options.map(|option| is_built_in(build, option)), [true, false, false, false]);
    }

    #[test]
    fn budgets_are_looked_for_where_the_cpu_time_is() {
        let folder = std::env::temp_dir().join(format!("rt-budgets-{}", std::process::id()));
        std::fs::create_dir(&folder).expect("a folder for a file");
        std::fs::write(folder.join("cpu.rt_runtime_us"), "950000").expect("it takes files");
        let line = |kind, options| {
            format!("32 31 0:29 / {} rw - {kind} cgroup rw,{options}\n", folder.display())
        };
        let found = [("cgroup", "cpu,cpuacct"), ("cgroup", "cpuset"), ("cgroup2", "cpu")]
            .map(|(kind, options)| has_rt_budgets(&line(kind, options)));
        std::fs::remove_dir_all(&folder).expect("it is there");
        assert_eq!(found, [true, false, false]);
        assert!(!has_rt_budgets(&line("cgroup", "cpu")), "no budgets are there any more");
    }

    #[test]
    fn what_this_kernel_says_of_its_groups_agrees() {
        let Some(build) = build() else { return };
        assert!(build.lines().any(|line| line.starts_with("CONFIG_")), "{build}");
        let mut notes = Vec::new();
        let groups = rt_group_sched(&mut notes);
        assert_eq!((groups, notes), (is_built_in(&build, "RT_GROUP_SCHED"), vec![]));
    }

    #[test]
    fn this_machine_ticks_and_has_as_many_cpus_as_asked_for() {
        if !cfg!(target_os = "linux") {
            return;
        }
        assert!((24..=100_000).contains(&tick_hz().expect("the kernel has a clock")));
        assert_eq!(topology(&[0, 1, 2], &mut vec![]).cpus(), 3);
        assert!(!kernel().is_empty());
    }
}
