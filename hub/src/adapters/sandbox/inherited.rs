//! What a process inherits and a worker must not keep: open descriptors, and the machine's time zone.
#![expect(unsafe_code, reason = "two calls of the C library that exist in no safe form")]

/// Closes every descriptor but the three standard ones. Call it before anything was opened.
pub(super) fn close_descriptors() -> std::io::Result<()> {
    // SAFETY: nothing in this process owns a descriptor above 2 yet, so none is closed under its owner.
    let done = unsafe { libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, 0_u32) };
    if done == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// Reads `TZ`, so that local time opens no file later.
pub(super) fn settle_time_zone() {
    unsafe extern "C" {
        fn tzset();
    }
    // SAFETY: the process has one thread, and nobody changes its environment.
    unsafe { tzset() }
}
