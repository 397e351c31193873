//! The system calls a worker may make: those that allocate, tell time, and move bytes over its two pipes.

use libc::{MAP_ANONYMOUS, PROT_EXEC};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Len, SeccompCmpOp as Is, SeccompCondition,
    SeccompFilter, SeccompRule,
};
use std::collections::BTreeMap;

/// Allowed whatever their arguments are.
const ALLOWED: &[libc::c_long] = &[
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_futex,
    libc::SYS_clock_gettime,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
    libc::SYS_sched_yield,
    libc::SYS_restart_syscall,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_sigaltstack,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// The filter: whatever it does not name ends the process.
pub(super) fn filter() -> Result<BpfProgram, seccompiler::BackendError> {
    let condition = |argument, is, value| SeccompCondition::new(argument, Len::Dword, is, value);
    let descriptor = |number| SeccompRule::new(vec![condition(0, Is::Eq, number)?]);
    let bits = |bits: libc::c_int| u64::from(bits.cast_unsigned());
    let never_executable = || condition(2, Is::MaskedEq(bits(PROT_EXEC)), 0);

    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        ALLOWED.iter().map(|call| (*call, Vec::new())).collect();
    rules.insert(libc::SYS_read, vec![descriptor(0)?]);
    rules.insert(libc::SYS_write, vec![descriptor(1)?, descriptor(2)?]);
    // Memory only: neither a file's bytes nor anything that could be run.
    let anonymous = condition(3, Is::MaskedEq(bits(MAP_ANONYMOUS)), bits(MAP_ANONYMOUS))?;
    rules.insert(libc::SYS_mmap, vec![SeccompRule::new(vec![never_executable()?, anonymous])?]);
    rules.insert(libc::SYS_mprotect, vec![SeccompRule::new(vec![never_executable()?])?]);
    // `abort` signals its own process, and only that signal: not the hub, nor anything else of this user.
    let own = condition(0, Is::Eq, std::process::id().into())?;
    let abort = condition(2, Is::Eq, bits(libc::SIGABRT))?;
    rules.insert(libc::SYS_tgkill, vec![SeccompRule::new(vec![own, abort])?]);

    SeccompFilter::new(
        rules,
        SeccompAction::KillProcess,
        SeccompAction::Allow,
        std::env::consts::ARCH.try_into()?,
    )?
    .try_into()
}
