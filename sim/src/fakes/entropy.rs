//! Randomness from a seed.

use crate::seed::{Seed, Stream};
use hub::ports::entropy::Entropy;
use std::sync::Mutex;

/// The same bytes in every repetition.
#[derive(Debug)]
pub struct SimEntropy(Mutex<Stream>);

impl SimEntropy {
    /// Randomness of one process of one seed.
    #[must_use]
    pub fn new(seed: Seed, process: u32) -> SimEntropy {
        SimEntropy(Mutex::new(seed.stream(&format!("entropy {process}"))))
    }
}

impl Entropy for SimEntropy {
    fn fill(&self, out: &mut [u8]) {
        self.0.lock().expect("not poisoned").fill(out);
    }
}
