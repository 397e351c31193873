//! When the process dies: before or after the nth thing it does to the outside.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;

/// Where a process dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crash {
    /// At its nth effect, counted from 0.
    pub at: u64,
    /// After the effect happened, or before.
    pub after: bool,
}

/// Counts effects, and stops the process at one of them.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    count: AtomicU64,
    crash: Mutex<Option<Crash>>,
    crashed: Notify,
}

impl Faults {
    /// Faults with at most one crash.
    #[must_use]
    pub fn new(crash: Option<Crash>) -> Faults {
        let inner = Inner { crash: Mutex::new(crash), ..Inner::default() };
        Faults { inner: Arc::new(inner) }
    }

    /// Does one effect: the process may die before it, after it, or not at all. A dead process never goes
    /// on, so the future of one never completes.
    ///
    /// # Panics
    /// A thread panicked while it looked.
    pub async fn effect<T>(&self, work: impl FnOnce() -> T) -> T {
        let number = self.inner.count.fetch_add(1, Ordering::SeqCst);
        let crash = *self.inner.crash.lock().expect("not poisoned");
        match crash.filter(|crash| crash.at == number) {
            None => work(),
            Some(crash) => {
                if crash.after {
                    drop(work());
                }
                self.inner.crashed.notify_one();
                std::future::pending().await
            }
        }
    }

    /// Completes when the process has died.
    pub async fn crashed(&self) {
        self.inner.crashed.notified().await;
    }

    /// Effects so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.inner.count.load(Ordering::SeqCst)
    }
}
