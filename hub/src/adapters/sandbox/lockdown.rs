//! What a worker gives up before it sees the first byte of guest code.
//!
//! Each layer alone refuses most of what the others refuse; together they hold when one has a hole.

use rustix::process::{Resource, Rlimit, setrlimit};

/// Seconds of CPU after which the kernel ends a worker that everything else failed to end.
const CPU_SECONDS_MAX: u64 = 120;
/// Bytes of address space: the program, a full guest heap, and a few of the largest frames.
const ADDRESS_BYTES_MAX: u64 = 1 << 30;

/// One layer of the lock-down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layer {
    /// Nothing inherited: descriptors, time zone, the right to outlive the parent or to gain privileges.
    Inherited,
    /// No files and no network, as the kernel's Landlock sees them.
    Landlock,
    /// No large files, no further descriptors or processes, bounded memory and CPU.
    Limits,
    /// No system calls but those that computing and talking over the two pipes need.
    Seccomp,
}

impl Layer {
    /// Every layer, in the only order that works: Landlock needs a descriptor, which the limits refuse.
    pub const ALL: &[Layer] = &[Layer::Inherited, Layer::Landlock, Layer::Limits, Layer::Seccomp];

    /// Its name, as `doctor` prints it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Layer::Inherited => "process",
            Layer::Landlock => "landlock",
            Layer::Limits => "rlimits",
            Layer::Seccomp => "seccomp",
        }
    }

    /// Applies it to this process, for good. `false`: this system does not have it.
    ///
    /// # Errors
    /// The system has it and refuses; the worker must end.
    pub fn apply(self) -> std::io::Result<bool> {
        match self {
            Layer::Inherited => inherited(),
            Layer::Landlock => landlock(),
            Layer::Limits => limits(),
            Layer::Seccomp => seccomp(),
        }
    }
}

/// Applies every layer; returns the names of those that this system lacks.
pub(super) fn lock_down() -> std::io::Result<Vec<String>> {
    let mut missing = Vec::new();
    for layer in Layer::ALL {
        if !layer.apply()? {
            missing.push(layer.name().to_owned());
        }
    }
    Ok(missing)
}

fn limits() -> std::io::Result<bool> {
    let set = |resource, value| {
        setrlimit(resource, Rlimit { current: Some(value), maximum: Some(value) })
    };
    set(Resource::Core, 0)?;
    set(Resource::Fsize, 0)?;
    set(Resource::Nofile, 3)?;
    set(Resource::Cpu, CPU_SECONDS_MAX)?;
    #[cfg(target_os = "linux")]
    {
        set(Resource::Nproc, 0)?;
        set(Resource::Memlock, 0)?;
        set(Resource::As, ADDRESS_BYTES_MAX)?;
    }
    Ok(true)
}

#[cfg(target_os = "linux")]
fn inherited() -> std::io::Result<bool> {
    use rustix::process::{
        DumpableBehavior, Signal, set_dumpable_behavior, set_parent_process_death_signal,
    };
    super::inherited::settle_time_zone();
    // Where the kernel keeps its clock is looked up once, in ways that are refused later.
    let _ = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    set_parent_process_death_signal(Some(Signal::KILL))?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    rustix::thread::set_no_new_privs(true)?;
    match super::inherited::close_descriptors() {
        Ok(()) => Ok(true),
        // Older than Linux 5.9: seccomp still refuses every use of what is open.
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(target_os = "linux")]
fn landlock() -> std::io::Result<bool> {
    use landlock::{
        ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, Ruleset,
        RulesetAttr as _, RulesetStatus, Scope,
    };
    // Everything this version knows is handled and nothing is granted; an older kernel refuses what it can.
    let abi = ABI::V6;
    let restricted = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(abi))
        .and_then(|ruleset| ruleset.handle_access(AccessNet::from_all(abi)))
        .and_then(|ruleset| ruleset.scope(Scope::from_all(abi)))
        .and_then(Ruleset::create)
        .and_then(landlock::RulesetCreated::restrict_self)
        .map_err(std::io::Error::other)?;
    Ok(restricted.ruleset != RulesetStatus::NotEnforced)
}

#[cfg(target_os = "linux")]
fn seccomp() -> std::io::Result<bool> {
    let filter = super::syscalls::filter().map_err(std::io::Error::other)?;
    match seccompiler::apply_filter(&filter) {
        Ok(()) => Ok(true),
        Err(seccompiler::Error::Prctl(error) | seccompiler::Error::Seccomp(error))
            if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EINVAL)) =>
        {
            Ok(false)
        }
        Err(error) => Err(std::io::Error::other(error)),
    }
}

#[cfg(not(target_os = "linux"))]
fn inherited() -> std::io::Result<bool> {
    Ok(false)
}

#[cfg(not(target_os = "linux"))]
fn landlock() -> std::io::Result<bool> {
    Ok(false)
}

#[cfg(not(target_os = "linux"))]
fn seccomp() -> std::io::Result<bool> {
    Ok(false)
}
