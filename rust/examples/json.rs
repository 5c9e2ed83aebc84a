//! A program that parses JSON into a tree and drops it, over and over: `json ROUNDS`. Prints the CPU time. `json_system` is the same
//! with the C library's malloc, or what is preloaded in its place.

#[global_allocator]
static ALLOCATOR: freehold::Freehold = freehold::Freehold;

include!("json_program.rs.in");
