//! Unpredictable bytes: ids and run seeds are made from these.

/// Randomness, real or simulated.
pub trait Entropy: Send + Sync + 'static {
    /// Fills `out`. Never fails: without randomness there is no hub.
    fn fill(&self, out: &mut [u8]);
}
