//! What a worker gives up before it sees the first byte of guest code.

use rustix::process::{Resource, Rlimit, setrlimit};

/// Seconds of CPU after which the kernel ends a worker that everything else failed to end.
const CPU_SECONDS_MAX: u64 = 120;

/// Gives up what can be given up; returns the layers that this system lacks.
pub(super) fn lock_down() -> Result<Vec<String>, rustix::io::Errno> {
    let limit = |value| Rlimit { current: Some(value), maximum: Some(value) };
    setrlimit(Resource::Core, limit(0))?;
    setrlimit(Resource::Fsize, limit(0))?;
    setrlimit(Resource::Nofile, limit(3))?;
    setrlimit(Resource::Cpu, limit(CPU_SECONDS_MAX))?;
    let mut missing = Vec::new();
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{
            DumpableBehavior, Signal, set_dumpable_behavior, set_parent_process_death_signal,
        };
        set_parent_process_death_signal(Some(Signal::KILL))?;
        set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
        rustix::thread::set_no_new_privs(true)?;
        missing.extend(["landlock".to_owned(), "seccomp".to_owned()]);
    }
    #[cfg(not(target_os = "linux"))]
    missing.push("system sandbox".to_owned());
    Ok(missing)
}
