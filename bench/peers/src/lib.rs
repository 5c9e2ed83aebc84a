//! Nothing to see: see `Cargo.toml`.
