//! One number names one whole execution.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore as _, SeedableRng as _};

/// Names an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seed(pub u64);

impl Seed {
    /// An independent stream of chances: a new draw in one never shifts another.
    #[must_use]
    pub fn stream(self, label: &str) -> Stream {
        let mut mixed = self.0 ^ 0x9e37_79b9_7f4a_7c15;
        for byte in label.bytes() {
            mixed = (mixed ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3).rotate_left(17);
        }
        Stream(ChaCha8Rng::seed_from_u64(mixed))
    }
}

/// Chances, one after the other.
#[derive(Debug, Clone)]
pub struct Stream(ChaCha8Rng);

impl Stream {
    /// A number below `bound`; zero when the bound is zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.0.next_u64() % bound }
    }

    /// True in `percent` of a hundred draws.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of several.
    ///
    /// # Panics
    /// There is none.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        let at = usize::try_from(self.below(from.len() as u64)).expect("fits");
        &from[at]
    }

    /// Fills bytes.
    pub fn fill(&mut self, out: &mut [u8]) {
        self.0.fill_bytes(out);
    }
}
