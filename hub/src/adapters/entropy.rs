//! The system's randomness.

use crate::ports::entropy::Entropy;

/// Randomness of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    #[expect(
        clippy::panic,
        reason = "without randomness ids and seeds would repeat, which nothing may do"
    )]
    fn fill(&self, out: &mut [u8]) {
        if let Err(error) = getrandom::fill(out) {
            panic!("the system gives no randomness: {error}");
        }
    }
}
