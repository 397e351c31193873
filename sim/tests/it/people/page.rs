//! The approval page over the real binary, spoken to byte by byte.
