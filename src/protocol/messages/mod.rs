//! One file per API: its declaration, all versions.
pub mod metadata;
