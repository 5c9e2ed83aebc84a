//! What is run: one real program with its work, which is the same on every machine and for every allocator.

use std::path::Path;

use anyhow::Result;

use super::allocators::{self, Allocator};
use super::measure::Sample;
use super::{compile, llm, postgres, program, redis, web};

/// A program with its work, ready to run under one allocator after the other.
pub trait Scene {
    /// The program and the work, in one line.
    fn describe(&self) -> String;

    /// When the memory after the work is read; nothing where the program has ended by then.
    fn after(&self) -> Option<&'static str>;

    /// The peak to expect, roughly: it is touched once before the first run.
    fn memory(&self) -> usize;

    fn allocators(&self, library: &Path) -> Result<Vec<Allocator>> {
        Ok(allocators::usual(library))
    }

    /// Whose memory the table shows.
    fn whose_peak(&self) -> &'static str {
        "`peak` is the most memory that it had at once"
    }

    /// The work from its beginning to its end.
    fn run(&self, allocator: &Allocator) -> Result<Sample>;

    /// The same program under Freehold with its data, observed, for a person to look at.
    fn tour(&self, _library: &Path) -> Result<()> {
        Ok(())
    }
}

#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
pub enum Name {
    /// redis-server with an index of files, then a tour of the running server
    Redis,
    /// A Python web server that keeps bodies of 100 KB
    Python,
    /// PostgreSQL with eight connections and large questions
    Postgres,
    /// A Node web server that keeps and compresses documents
    Node,
    /// A C++ project, compiled by two jobs at once
    Build,
    /// A stand-in for a server of language models, which calls malloc_trim
    Llm,
    /// gunicorn with one worker that keeps bodies of 100 KB
    Gunicorn,
    /// uvicorn with an application that keeps bodies of 100 KB
    Uvicorn,
    /// A Ruby web server that keeps bodies of 100 KB
    Ruby,
    /// A Java web server that keeps and compresses documents
    Java,
    /// nginx, which compresses documents
    Nginx,
}

/// What is shown when no scene was named, and why it is not redis where it is another one.
pub fn usual() -> (Name, Option<String>) {
    let server = program::find("redis-server", "redis-server").ok();
    match server.and_then(|server| redis::bound_to_its_allocator(&server)) {
        Some(why) => (Name::Python, Some(why)),
        None => (Name::Redis, None),
    }
}

/// Makes a scene's data. `size` is in percent of what a person is shown; tests take less.
pub fn open(name: Name, size: u32) -> Result<Box<dyn Scene>> {
    Ok(match name {
        Name::Redis => Box::new(redis::Redis::new(size)?),
        Name::Python => Box::new(web::Web::python(size)?),
        Name::Postgres => Box::new(postgres::Postgres::new(size)?),
        Name::Node => Box::new(web::Web::node(size)?),
        Name::Build => Box::new(compile::Compile::new(size)?),
        Name::Llm => Box::new(llm::Llm::new(size)?),
        Name::Gunicorn => Box::new(web::Web::gunicorn(size)?),
        Name::Uvicorn => Box::new(web::Web::uvicorn(size)?),
        Name::Ruby => Box::new(web::Web::ruby(size)?),
        Name::Java => Box::new(web::Web::java(size)?),
        Name::Nginx => Box::new(web::Web::nginx(size)?),
    })
}

/// A part of a number, and at least one.
pub fn percent(whole: usize, size: u32) -> usize {
    (whole * size as usize / 100).max(1)
}
