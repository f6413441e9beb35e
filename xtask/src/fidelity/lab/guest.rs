//! A kernel in the emulator: the file system of the guest, its boot, and what it sends.
//!
//! The emulator has one CPU, whose clock counts instructions (`-icount`): the time of the guest does not depend on what
//! else this machine does. The guest is a file system in memory, with busybox, the command and its libraries.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::workspace::{self, Outcome, program};

/// The first process of the guest.
const INIT: &str = include_str!("init.sh");

/// The memory of the guest: the file system, and the ring of the kernel's trace.
const MEMORY: &str = "1G";

/// The kernel's command line. The addresses of its code do not change from boot to boot, and no mitigation costs time
/// that an emulated CPU does not have.
const LINE: &str = "console=ttyS0 quiet panic=-1 mitigations=off nokaslr rdinit=/init";

/// A frame that the guest sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) bytes: Vec<u8>,
}

/// The drivers of the port that the guest sends through, as the guest loads them: a kernel that does not have them built in
/// has them as modules. A byte through a serial port takes some thousand instructions, which is more than all else.
const MODULES: [&str; 6] = [
    "virtio/virtio",
    "virtio/virtio_ring",
    "virtio/virtio_pci_legacy_dev",
    "virtio/virtio_pci_modern_dev",
    "virtio/virtio_pci",
    "char/virtio_console",
];

/// What a guest is made of.
pub(super) struct Parts<'a> {
    /// The emulator and busybox, with their libraries.
    pub(super) tools: &'a Path,
    pub(super) vmlinuz: &'a Path,
    /// The folder of the kernel's drivers.
    pub(super) drivers: &'a Path,
    pub(super) runyard: &'a Path,
    /// Two to this power nanoseconds are one instruction.
    pub(super) shift: u32,
}

impl Parts<'_> {
    /// Boots the kernel in `folder`. The guest runs the lines of `list`: a name and options of `runyard linux` each, or
    /// `calibrate`. `files` has the scenarios by name. What the guest sends is in the file `sent` there.
    pub(super) fn boot(&self, folder: &Path, files: &[(String, String)], list: &str) -> Outcome {
        let root = folder.join("root");
        workspace::anew_at(&root)?;
        for part in ["bin", "proc", "sys", "dev", "tmp", "in", "lib64", "lib/x86_64-linux-gnu"] {
            fs::create_dir_all(root.join(part))?;
        }
        fs::copy(self.tools.join("usr/bin/busybox"), root.join("bin/busybox"))?;
        fs::copy(self.runyard, root.join("bin/runyard"))?;
        for library in libraries(self.runyard)? {
            let place = root.join(library.strip_prefix("/")?);
            fs::create_dir_all(place.parent().expect("a library is in a folder"))?;
            fs::copy(&library, place)?;
        }
        for (nth, module) in (0..).zip(MODULES) {
            let module = self.drivers.join(format!("{module}.ko"));
            if module.exists() {
                fs::copy(module, root.join(format!("lib/{nth}.ko")))?;
            }
        }
        fs::write(root.join("init"), INIT)?;
        fs::set_permissions(root.join("init"), fs::Permissions::from_mode(0o755))?;
        fs::write(root.join("in/list"), list)?;
        for (name, text) in files {
            fs::write(root.join(format!("in/{name}.json")), text)?;
        }
        let packed = folder.join("root.cpio");
        self.pack(&root, &packed)?;
        fs::remove_dir_all(&root)?;
        let mut emulator = self.emulator(&packed, &folder.join("sent"));
        emulator.stdin(Stdio::null()).stdout(File::create(folder.join("console"))?);
        workspace::run(&mut emulator)?;
        fs::remove_file(packed)?;
        Ok(())
    }

    /// Packs the file system as the kernel unpacks it.
    fn pack(&self, root: &Path, into: &Path) -> Outcome {
        let line = format!(
            "find . | {0} cpio -o -H newc 2>/dev/null",
            self.tools.join("usr/bin/busybox").display()
        );
        let mut pack = program("sh");
        workspace::run(pack.args(["-c", &line]).current_dir(root).stdout(File::create(into)?))
    }

    fn emulator(&self, packed: &Path, sent: &Path) -> Command {
        let (usr, libraries) =
            (self.tools.join("usr"), self.tools.join("usr/lib/x86_64-linux-gnu"));
        // Its libraries are those of its own suite, and so is their loader.
        let mut emulator = program(libraries.join("ld-linux-x86-64.so.2"));
        emulator.arg("--library-path").arg(&libraries).arg(usr.join("bin/qemu-system-x86_64"));
        emulator.arg("-L").arg(usr.join("share/qemu")).arg("-L").arg(usr.join("share/seabios"));
        emulator.args(["-machine", "q35", "-cpu", "max", "-smp", "1", "-m", MEMORY]);
        emulator.args([
            "-accel",
            "tcg,thread=single",
            "-icount",
            &format!("shift={},sleep=off", self.shift),
        ]);
        emulator.args([
            "-rtc",
            "base=2026-01-01,clock=vm",
            "-display",
            "none",
            "-vga",
            "none",
            "-net",
            "none",
        ]);
        emulator.args(["-no-reboot", "-serial", "stdio", "-device", "virtio-serial"]);
        emulator.args(["-chardev", &format!("file,id=sent,path={}", sent.display())]);
        emulator.args(["-device", "virtserialport,chardev=sent,name=sent"]);
        emulator
            .arg("-kernel")
            .arg(self.vmlinuz)
            .arg("-initrd")
            .arg(packed)
            .args(["-append", LINE]);
        emulator
    }
}

/// The libraries of a program, with its loader.
fn libraries(program: &Path) -> Outcome<Vec<PathBuf>> {
    let said = workspace::output(self::program("ldd").arg(program))?.stdout;
    let said = String::from_utf8(said)?;
    let paths =
        said.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
    Ok(paths.map(PathBuf::from).collect())
}

/// The whole frames in a file that a guest wrote. The last one is not whole if the guest was stopped.
pub(super) fn frames(sent: &Path) -> Outcome<Vec<Frame>> {
    let mut bytes = Vec::new();
    File::open(sent)?.read_to_end(&mut bytes)?;
    Ok(split(&bytes))
}

fn split(mut bytes: &[u8]) -> Vec<Frame> {
    let mut frames = Vec::new();
    while let Some(end) = bytes.iter().position(|&byte| byte == b'\n') {
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        bytes = &bytes[end + 1..];
        let words: Vec<_> = head.split(' ').collect();
        let ["FRAME", name, kind, length] = words[..] else { continue };
        let Some((content, rest)) =
            length.parse().ok().and_then(|length| bytes.split_at_checked(length))
        else {
            break;
        };
        frames.push(Frame {
            name: name.to_owned(),
            kind: kind.to_owned(),
            bytes: content.to_vec(),
        });
        bytes = rest;
    }
    frames
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_all_of_its_bytes_and_a_cut_one_is_none() {
        let text = b"noise\nFRAME a report 5\nx\nFRAFRAME a trace 0\nFRAME b report 9\ncut";
        let frames = split(text);
        let seen: Vec<_> = frames.iter().map(|it| (&*it.name, &*it.kind, &*it.bytes)).collect();
        assert_eq!(seen, [("a", "report", &b"x\nFRA"[..]), ("a", "trace", &b""[..])]);
    }
}
