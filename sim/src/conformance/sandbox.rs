//! What every sandbox must do.
