//! The program of `json` on the C library's malloc, or on what is preloaded in its place.

include!("json_program.rs.in");
