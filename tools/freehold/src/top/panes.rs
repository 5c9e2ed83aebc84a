//! The panes beside the list: details of one site, the size classes, and the heaps.

use profile_file::layout::SLOT_BYTES;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Paragraph, Wrap};

use super::model::Model;
use super::rows::Stack;
use super::screen::{Theme, shorten};
use crate::heaps as heap_table;
use crate::leaks::verdict::{Doubt, Judgement, Verdict};
use crate::wording::{self, bytes, count, duration, estimate, short_duration};

pub fn details(frame: &mut Frame, area: Rect, model: &Model, theme: Theme) {
    let Some((place, stack)) = model.chosen_stack() else {
        frame.render_widget(Paragraph::new("no site is selected"), area);
        return;
    };
    let block = Block::new()
        .borders(Borders::TOP)
        .border_style(theme.soft())
        .title(title_of(model, place, stack));
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let [facts, below] = Layout::vertical([Constraint::Length(4), Constraint::Min(1)]).areas(inner);
    frame.render_widget(Paragraph::new(summary(model, stack, theme)), facts);
    // Side by side if there is room; else below each other, the stack first.
    let [stack_area, ages] = if below.width >= 70 {
        Layout::horizontal([Constraint::Fill(3), Constraint::Length(34)]).areas(below)
    } else {
        Layout::vertical([Constraint::Fill(1), Constraint::Fill(1)]).areas(below)
    };
    frame.render_widget(Paragraph::new(frames(stack, stack_area, theme)), stack_area);
    frame.render_widget(Paragraph::new(lifetimes(stack, ages, theme)), ages);
}

/// The function; and which of the stacks that lead to its line.
fn title_of(model: &Model, place: usize, stack: &Stack) -> String {
    let function = stack.call_site.function();
    match model.chosen().map_or(1, |row| row.stacks.len()) {
        1 => format!(" {function} "),
        all => format!(" {function}, stack {} of {all}: ← → ", place + 1),
    }
}

fn summary(model: &Model, site: &Stack, theme: Theme) -> Vec<Line<'static>> {
    let blocks = if site.live.blocks > 0.0 {
        format!(
            " in {} of {}",
            wording::blocks(&count(site.live.blocks)),
            bytes(site.live.mean_size())
        )
    } else {
        String::new()
    };
    let verdict_style = match site.judgement.verdict {
        Verdict::LikelyLeak => theme.bad(),
        Verdict::Growing => theme.warm(),
        _ => theme.good(),
    };
    // A program that has ended allocates nothing now.
    let over = model.gone || !model.snapshot.is_alive();
    let life = model.snapshot.running_ns() as f64 / 1e9;
    let rate = match over {
        true => format!(
            "in the mean {}/s",
            bytes(site.allocated.bytes / life.max(1e-3))
        ),
        false => format!("now {}/s", bytes(site.rate)),
    };
    vec![
        Line::from(format!(
            "live {}{blocks}, from {} samples",
            estimate(site.live.bytes, site.live.error()),
            site.live.samples
        )),
        Line::from(format!(
            "allocated {} in all, freed {}; {rate}",
            bytes(site.allocated.bytes),
            bytes(site.freed.bytes),
        )),
        Line::styled(say(&site.judgement), verdict_style),
    ]
}

/// The verdict in one line.
pub fn say(judgement: &Judgement) -> String {
    let word = match judgement.verdict {
        Verdict::LikelyLeak => "likely leak",
        Verdict::Growing => "growing",
        Verdict::Stopped => "grew and stopped",
        Verdict::Steady => "steady",
        Verdict::Unknown => "too few samples to tell",
    };
    match (&judgement.growth, judgement.verdict) {
        (Some(growth), Verdict::LikelyLeak | Verdict::Growing) => {
            let (rate, error) = growth.rate();
            let doubt = match judgement.doubt {
                Some(Doubt::Slowing) => ", but slows down",
                Some(Doubt::Uneven) => ", but in bursts",
                _ => "",
            };
            format!(
                "{word}: {} for {}, {:.1} sigma{doubt}",
                wording::rate(rate, error),
                duration(growth.seconds()),
                growth.sigma()
            )
        }
        (Some(growth), Verdict::Steady) if growth.survivors > 0 => format!(
            "{word}: of what gets older than {}, {:.0} % is alive",
            duration(growth.age_ns as f64 / 1e9),
            100.0 * growth.survival
        ),
        _ => word.to_owned(),
    }
}

fn frames(site: &Stack, area: Rect, theme: Theme) -> Vec<Line<'static>> {
    let room = usize::from(area.width.saturating_sub(2));
    let mut lines = vec![Line::styled("stack", theme.strong())];
    let frames = &site.call_site.frames;
    let height = usize::from(area.height.saturating_sub(1));
    let inner = site.call_site.inner().len();
    for (at, frame) in frames.iter().take(height).enumerate() {
        let place = frame
            .short_place()
            .unwrap_or_else(|| frame.module_name().to_owned());
        let function = shorten(
            &frame.function,
            room.saturating_sub(place.chars().count() + 2).max(12),
        );
        // What only allocates for the site is there, and stands back.
        let style = if at < inner {
            theme.soft()
        } else {
            Style::new()
        };
        lines.push(Line::from(vec![
            Span::styled(format!("{function}  "), style),
            Span::styled(place, theme.soft()),
        ]));
    }
    if frames.len() > height {
        lines.pop();
        let left = frames.len() + 1 - height;
        lines.push(Line::styled(format!("… {left} more"), theme.soft()));
    } else if site.call_site.cut {
        lines.push(Line::styled("… outer callers are not known", theme.soft()));
    }
    lines
}

/// How old blocks were when they were freed, in bytes.
fn lifetimes(site: &Stack, area: Rect, theme: Theme) -> Vec<Line<'static>> {
    let most = site.freed_at_age.iter().copied().fold(0.0, f64::max);
    let mut lines = vec![Line::styled("freed at the age of", theme.strong())];
    if most <= 0.0 {
        lines.push(Line::styled("nothing was freed", theme.soft()));
        return lines;
    }
    let used = |bytes: &f64| *bytes > 0.0;
    let first = site.freed_at_age.iter().position(used).unwrap_or(0);
    let last = site.freed_at_age.iter().rposition(used).unwrap_or(0);
    for (power, freed) in site
        .freed_at_age
        .iter()
        .enumerate()
        .take(last + 1)
        .skip(first)
    {
        if lines.len() >= usize::from(area.height) {
            break;
        }
        let cells = (freed / most * 12.0).round() as usize;
        let bar = if *freed > 0.0 && cells == 0 {
            "▏".to_owned()
        } else {
            "█".repeat(cells)
        };
        let bound = if power + 1 == site.freed_at_age.len() {
            "more".to_owned()
        } else {
            format!("< {}", short_duration(4f64.powi(power as i32) / 1e6))
        };
        lines.push(Line::from(vec![
            Span::styled(format!("{bound:>8} "), theme.soft()),
            Span::styled(format!("{bar:12} "), theme.good()),
            Span::raw(bytes(*freed)),
        ]));
    }
    lines
}

/// The tree of heaps.
pub fn heaps(frame: &mut Frame, area: Rect, model: &Model, theme: Theme) {
    let title = match &model.heaps {
        Ok(heaps) => format!(" {} ", heap_table::summary(heaps)),
        Err(_) => " heaps ".to_owned(),
    };
    let block = Block::new()
        .borders(Borders::TOP)
        .border_style(theme.soft())
        .title(title);
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let width = usize::from(inner.width);
    let lines = match &model.heaps {
        Err(reason) => vec![Line::from(reason.clone())],
        Ok(heaps) if heaps.list.is_empty() => {
            vec![Line::from("the program has no heaps (fh_heap_new)")]
        }
        Ok(heaps) => {
            let room = usize::from(inner.height.saturating_sub(1)).max(1);
            let rows = heap_table::lines(heaps, width, room);
            let head = Line::styled(heap_table::headings(width), theme.strong());
            std::iter::once(head)
                .chain(rows.iter().map(|row| Line::from(shorten(row, width))))
                .collect()
        }
    };
    let text = Paragraph::new(lines).wrap(Wrap { trim: false });
    frame.render_widget(text, inner);
}

/// Size classes by live bytes, with how full their slabs are.
pub fn classes(frame: &mut Frame, area: Rect, model: &Model, theme: Theme) {
    let block = Block::new()
        .borders(Borders::TOP)
        .border_style(theme.soft())
        .title(" size classes by what they hold; slabs by how full they are; s: slots of samples ");
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let mut rows: Vec<_> = model
        .snapshot
        .rows()
        .iter()
        .filter(|row| row.made > 0)
        .collect();
    rows.sort_by_key(|row| std::cmp::Reverse((row.made * row.size).max(row.slots * SLOT_BYTES)));
    let mut lines = vec![Line::styled(
        format!(
            "{:>10}{:>9}{:>9}{:>9}{:>7}  {:15}{}",
            "SIZE", "LIVE", "CACHED", "FREE", "SLABS", "USED", "<¼  <½  <¾  full"
        ),
        theme.strong(),
    )];
    if rows.is_empty() {
        lines.push(Line::from("no statistics by class yet"));
    }
    let room = usize::from(inner.height.saturating_sub(1));
    for row in rows.iter().take(room) {
        let share = row.live as f64 / row.made.max(1) as f64;
        let bar = "█".repeat((share * 8.0).round() as usize);
        let size = if row.size == 0 {
            "runs".to_owned()
        } else {
            bytes(row.size as f64)
        };
        let sampled = if row.sampled > 0 { " s" } else { "" };
        let amount = |blocks: u64| bytes((blocks * row.size) as f64);
        // Runs are of any size: what they take is known by their slots.
        let live = match row.size {
            0 => bytes((row.slots * SLOT_BYTES) as f64),
            _ => amount(row.live),
        };
        let occupancy: Vec<String> = row
            .occupancy
            .iter()
            .map(|slabs| format!("{:<4}", count(*slabs as f64)))
            .collect();
        lines.push(Line::from(vec![
            Span::raw(format!(
                "{size:>8}{sampled:2}{:>9}{:>9}{:>9}{:>7}  ",
                live,
                amount(row.cached),
                amount(row.free),
                count(row.slabs as f64)
            )),
            Span::styled(format!("{bar:8} "), theme.good()),
            Span::raw(format!("{:>3.0} %  {}", 100.0 * share, occupancy.join(""))),
        ]));
    }
    frame.render_widget(Paragraph::new(lines), inner);
}
