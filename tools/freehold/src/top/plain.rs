//! Screens without a terminal: plain text, and JSON.

use std::thread;

use anyhow::Result;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use serde::Serialize;

use super::model::Model;
use super::rows::Row;
use super::screen::{Theme, draw};
use super::{Args, Feed};
use crate::call_site::FrameData;
use crate::heaps::{self, HeapData};
use crate::leaks::verdict::Judgement;
use crate::output;

/// Columns of a plain screen.
const WIDTH: u16 = 110;

pub fn print(feed: &mut Feed, args: &Args) -> Result<()> {
    // A second look makes rates out of sums.
    if !feed.model.gone {
        thread::sleep(feed.every);
        feed.look();
    }
    loop {
        let look = if args.json {
            serde_json::to_string(&data(&feed.model, args.sites))?
        } else {
            text(&feed.model, WIDTH, args.sites)?
        };
        let read = output::write((look + "\n").as_bytes())?;
        let goes_on = (args.batch || args.json) && !args.once;
        if !goes_on || !read || feed.model.gone {
            return Ok(());
        }
        thread::sleep(feed.every);
        feed.look();
    }
}

/// The screen as text, without the line that names the keys.
pub fn text(model: &Model, width: u16, sites: usize) -> Result<String> {
    let rows = model.rows.len().clamp(1, sites.max(1)) as u16;
    let mut terminal = Terminal::new(TestBackend::new(width, rows + 7))?;
    terminal.draw(|frame| draw(frame, model, Theme::plain()))?;
    let mut lines = lines(terminal.backend().buffer());
    lines.pop();
    let mut text = lines.join("\n").trim_end().to_owned() + "\n";
    match &model.heaps {
        Ok(heaps) if !heaps.list.is_empty() => {
            let table = heaps::lines(heaps, usize::from(width), sites.max(1)).join("\n");
            let head = heaps::headings(usize::from(width));
            text += &format!("{}\n{head}\n{table}\n", heaps::summary(heaps));
        }
        Ok(_) => {}
        Err(reason) => text += &format!("note: {reason}\n"),
    }
    for note in model.notes() {
        text += &format!("note: {note}\n");
    }
    Ok(text)
}

pub fn lines(buffer: &Buffer) -> Vec<String> {
    let width = usize::from(buffer.area.width);
    buffer
        .content()
        .chunks(width)
        .map(|cells| {
            let line: String = cells.iter().map(ratatui::buffer::Cell::symbol).collect();
            line.trim_end().to_owned()
        })
        .collect()
}

#[derive(Serialize)]
struct Data<'a> {
    pid: u64,
    program: String,
    state: &'static str,
    seconds: f64,
    interval: u64,
    marks: u64,
    samples: usize,
    notes: Vec<String>,
    resident_bytes: Option<u64>,
    live_bytes: Option<u64>,
    cached_bytes: Option<u64>,
    free_bytes: Option<u64>,
    dirty_bytes: Option<u64>,
    deferred_bytes: Option<u64>,
    figures_age: Option<f64>,
    allocated_per_second: Option<f64>,
    freed_per_second: Option<f64>,
    sites: Vec<SiteData<'a>>,
    /// None: they are not known, and a note says why.
    heaps: Option<Vec<HeapData<'a>>>,
    heaps_left_out: Option<u64>,
}

#[derive(Serialize)]
struct SiteData<'a> {
    /// The number of the largest of its stacks; how many there are.
    site: u32,
    stacks: usize,
    function: &'a str,
    place: Option<String>,
    live_bytes: f64,
    live_error: f64,
    live_blocks: f64,
    allocated_per_second: f64,
    median_age: Option<f64>,
    #[serde(flatten)]
    judgement: &'a Judgement,
    stack: Vec<FrameData>,
}

fn data(model: &Model, sites: usize) -> Data<'_> {
    let snapshot = &model.snapshot;
    let statistics = snapshot.profile.statistics.as_deref();
    let rates = model.rates();
    let heaps = model.heaps.as_ref().ok();
    let mut notes = model.notes();
    notes.extend(model.heaps.as_ref().err().cloned());
    Data {
        pid: snapshot.pid(),
        program: snapshot.program(),
        state: model.state(),
        seconds: snapshot.running_ns() as f64 / 1e9,
        interval: snapshot.interval(),
        marks: snapshot.profile.control.mark,
        samples: snapshot.samples.len(),
        notes,
        resident_bytes: statistics.map(|f| f.resident_bytes),
        live_bytes: statistics.map(|f| f.live_bytes + f.huge_bytes),
        cached_bytes: statistics.map(|f| f.cached_bytes),
        free_bytes: statistics.map(|f| f.free_bytes),
        dirty_bytes: statistics.map(|f| f.dirty_bytes),
        deferred_bytes: statistics.map(|f| f.deferred_bytes),
        figures_age: snapshot.statistics_age_ns().map(|ns| ns as f64 / 1e9),
        allocated_per_second: rates.map(|rates| rates.0),
        freed_per_second: rates.map(|rates| rates.1),
        sites: model.rows.iter().take(sites).map(site_data).collect(),
        heaps: heaps.map(heaps::data),
        heaps_left_out: heaps.map(|heaps| heaps.left_out),
    }
}

fn site_data(row: &Row) -> SiteData<'_> {
    SiteData {
        site: row.site(),
        stacks: row.stacks.len(),
        function: row.call_site().function(),
        place: row.call_site().place(),
        live_bytes: row.live.bytes,
        live_error: row.live.error(),
        live_blocks: row.live.blocks,
        allocated_per_second: row.rate,
        median_age: row.age,
        judgement: &row.judged().judgement,
        stack: row.judged().call_site.data(),
    }
}
