//! Draws the model. The same drawing serves the terminal, plain text and the tests.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Paragraph};

use super::keys::HELP;
use super::model::{Model, Pane, Sort};
use super::panes;
use super::rows::Row;
use crate::explain::counts::before_the_end;
use crate::leaks::text::sparkline;
use crate::leaks::verdict::Verdict;
use crate::wording::{bytes, duration, plain_count, plural, sampling, short_duration};

/// Colours, or none where the person (NO_COLOR) or the terminal wants none.
#[derive(Clone, Copy)]
pub struct Theme {
    colours: bool,
}

impl Theme {
    pub fn plain() -> Theme {
        Theme { colours: false }
    }

    pub fn of_environment() -> Theme {
        Theme {
            colours: crate::output::wants_colours(),
        }
    }

    fn colour(self, colour: Color) -> Style {
        if self.colours {
            Style::new().fg(colour)
        } else {
            Style::new()
        }
    }

    pub fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    pub fn soft(self) -> Style {
        self.colour(Color::DarkGray)
    }

    pub fn good(self) -> Style {
        self.colour(Color::Green)
    }

    pub fn bad(self) -> Style {
        self.colour(Color::Red)
    }

    pub fn warm(self) -> Style {
        self.colour(Color::Yellow)
    }

    pub fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }
}

pub fn draw(frame: &mut Frame, model: &Model, theme: Theme) {
    let [head, curve, body, foot] = Layout::vertical([
        Constraint::Length(3),
        Constraint::Length(1),
        Constraint::Min(3),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Paragraph::new(header(model, head.width, theme)), head);
    frame.render_widget(
        Paragraph::new(resident_curve(model, curve.width, theme)),
        curve,
    );
    match model.pane {
        Pane::Sites => list(frame, body, model, theme),
        Pane::Classes => panes::classes(frame, body, model, theme),
        Pane::Heaps => panes::heaps(frame, body, model, theme),
        Pane::Help => help(frame, body, theme),
        Pane::Details if body.height >= 24 => {
            let [above, below] =
                Layout::vertical([Constraint::Fill(1), Constraint::Fill(2)]).areas(body);
            list(frame, above, model, theme);
            panes::details(frame, below, model, theme);
        }
        Pane::Details => panes::details(frame, body, model, theme),
    }
    frame.render_widget(Paragraph::new(footer(model, foot.width, theme)), foot);
}

fn header(model: &Model, width: u16, theme: Theme) -> Vec<Line<'static>> {
    let snapshot = &model.snapshot;
    let program = snapshot.program();
    let name = program.rsplit('/').next().unwrap_or_default().to_owned();
    let state = model.state();
    let mut first = vec![
        Span::styled(format!("{name} {}", snapshot.pid()), theme.strong()),
        Span::raw("  "),
        Span::styled(
            state,
            if state == "running" {
                theme.good()
            } else {
                theme.bad()
            },
        ),
        Span::raw(format!(" {}", duration(snapshot.running_ns() as f64 / 1e9))),
    ];
    if let Some(alarm) = snapshot.alarm() {
        first.push(Span::styled(format!("  {alarm}"), theme.bad()));
    }
    if !model.symbols.warnings().is_empty() {
        first.push(Span::styled("  names missing: see --once", theme.warm()));
    }
    let sampled = format!(
        "  {}, {} live",
        sampling(snapshot.interval()),
        plain_count(snapshot.samples.len() as u64)
    );
    let taken: usize = first.iter().map(Span::width).sum();
    if taken + sampled.chars().count() <= usize::from(width) {
        first.push(Span::raw(sampled));
    }
    if model.paused {
        first.push(Span::styled("  PAUSED", theme.warm()));
    }
    vec![
        Line::from(first),
        memory(model, width, theme),
        rates(model, width, theme),
    ]
}

fn memory(model: &Model, width: u16, theme: Theme) -> Line<'static> {
    let Some(f) = model.snapshot.profile.statistics.as_deref() else {
        return Line::styled("no statistics of the heap yet", theme.soft());
    };
    let mut parts = vec![
        ("RSS", f.resident_bytes),
        ("live", f.live_bytes + f.huge_bytes),
        ("free", f.free_bytes.saturating_sub(f.purged_in_slabs_bytes)),
        ("cached", f.cached_bytes),
        ("dirty", f.dirty_bytes),
    ];
    if f.group_limit != 0 && f.group_limit < 1 << 60 {
        parts.insert(1, ("of", f.group_limit));
    } else if f.limit_hard != 0 {
        parts.insert(1, ("of", f.limit_hard));
    }
    if f.deferred_bytes != 0 {
        parts.push(("deferred", f.deferred_bytes));
    }
    // Of a program that is gone: what the samples say below is later than this line.
    let moment = before_the_end(&model.snapshot)
        .map(|seconds| ("counted", format!("{} before the end", duration(seconds))));
    let amounts = parts
        .iter()
        .map(|(name, value)| (*name, bytes(*value as f64)));
    pairs(moment.into_iter().chain(amounts), width, theme)
}

fn rates(model: &Model, width: u16, theme: Theme) -> Line<'static> {
    let mut parts = Vec::new();
    if let Some((allocated, freed)) = model.rates() {
        parts.push(("allocated", format!("{}/s", bytes(allocated))));
        parts.push(("freed", format!("{}/s", bytes(freed))));
    }
    if let Some(f) = model.snapshot.profile.statistics.as_deref() {
        parts.push(("threads", f.threads.to_string()));
    }
    let age = model.snapshot.statistics_age_ns();
    if let Some(age) = age.filter(|_| before_the_end(&model.snapshot).is_none()) {
        parts.push(("statistics", format!("{} old", duration(age as f64 / 1e9))));
    }
    if model.snapshot.profile.control.mark > 0 {
        parts.push(("marks", model.snapshot.profile.control.mark.to_string()));
    }
    pairs(parts.into_iter(), width, theme)
}

/// Names and values, as many as there is room for: half a number would be a wrong one.
fn pairs(
    parts: impl Iterator<Item = (&'static str, String)>,
    width: u16,
    theme: Theme,
) -> Line<'static> {
    let mut left = usize::from(width);
    let mut spans = Vec::new();
    for (name, value) in parts {
        let length = name.chars().count() + 1 + value.chars().count();
        if length > left {
            break;
        }
        left = left.saturating_sub(length + 2);
        spans.push(Span::styled(name, theme.soft()));
        spans.push(Span::raw(format!(" {value}  ")));
    }
    Line::from(spans)
}

fn resident_curve(model: &Model, width: u16, theme: Theme) -> Line<'static> {
    let curve: Vec<f64> = model
        .points
        .iter()
        .map(|point| point.resident)
        .filter(|resident| *resident > 0.0)
        .collect();
    let room = usize::from(width.saturating_sub(5)).min(super::model::HISTORY);
    Line::from(vec![
        Span::styled("RSS  ", theme.soft()),
        Span::styled(sparkline(&curve, room), theme.good()),
    ])
}

/// Of a narrow screen the site's name keeps so much.
const LEAST_NAME: usize = 18;

/// The columns between LIVE and SITE that there is room for: what is missing is missing from the right.
struct Columns {
    shown: Vec<Column>,
    /// Of all of them, and LIVE.
    width: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum Column {
    Error,
    Change,
    Rate,
    Age,
    Trend,
}

impl Columns {
    fn of(model: &Model, width: usize) -> Columns {
        let mut columns = Columns {
            shown: Vec::new(),
            width: 10,
        };
        let all = [
            (Column::Error, 11),
            (Column::Change, 12),
            (Column::Rate, 12),
            (Column::Age, 6),
            (Column::Trend, 9),
        ];
        let compared = model.baseline_name().is_some();
        for (column, needs) in all {
            if column == Column::Change && !compared {
                continue;
            }
            if columns.width + needs + 1 + LEAST_NAME > width {
                break;
            }
            columns.width += needs;
            columns.shown.push(column);
        }
        columns
    }

    fn show(&self, column: Column) -> bool {
        self.shown.contains(&column)
    }
}

fn list(frame: &mut Frame, area: Rect, model: &Model, theme: Theme) {
    let title = title(model);
    let block = Block::new()
        .borders(Borders::TOP)
        .border_style(theme.soft())
        .title(title);
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let rows = &model.rows;
    let width = usize::from(inner.width);
    let columns = Columns::of(model, width);
    let mut lines = vec![Line::styled(titles(model, &columns), theme.strong())];
    if rows.is_empty() {
        lines.push(Line::from(why_empty(model)));
    }
    let room = usize::from(inner.height.saturating_sub(1)).max(1);
    // The selected one is always in sight.
    let first = (model.selected + 1).saturating_sub(room);
    for (place, row) in rows.iter().enumerate().skip(first).take(room) {
        let chosen = place == model.selected;
        // Reversed colours of several kinds beside each other are hard to read.
        let theme = if chosen { Theme::plain() } else { theme };
        let line = one(row, &columns, width, theme);
        lines.push(if chosen {
            line.style(theme.selected())
        } else {
            line
        });
    }
    frame.render_widget(Paragraph::new(lines), inner);
}

fn why_empty(model: &Model) -> String {
    match model.snapshot.why_empty() {
        Some(reason) => reason,
        None => format!("no site has {:?} in its stack; Esc shows all", model.filter),
    }
}

fn title(model: &Model) -> String {
    let shown = model.rows.len();
    let mut title = format!(
        " {} by {} ",
        plural(shown, "site", "sites"),
        model.sort.name()
    );
    if model.typing || !model.filter.is_empty() {
        let cursor = if model.typing { "_" } else { "" };
        title.push_str(&format!("with \"{}{cursor}\" ", model.filter));
    }
    if let Some(name) = model.baseline_name() {
        title.push_str(&format!("change since {name} "));
    }
    title
}

fn titles(model: &Model, columns: &Columns) -> String {
    let arrow = |sort: Sort, name: &str| {
        if model.sort == sort {
            format!("{name}↓")
        } else {
            name.to_owned()
        }
    };
    let mut out = format!("{:>10}", arrow(Sort::Live, "LIVE"));
    for column in &columns.shown {
        out += &match column {
            Column::Error => format!("{:>11}", "±"),
            Column::Change => format!("{:>12}", arrow(Sort::Change, "CHANGE")),
            Column::Rate => format!("{:>12}", arrow(Sort::Rate, "ALLOC/S")),
            Column::Age => format!("{:>6}", arrow(Sort::Age, "AGE")),
            Column::Trend => format!(" {:8}", "TREND"),
        };
    }
    out + " " + &arrow(Sort::Name, "SITE")
}

fn one(row: &Row, columns: &Columns, width: usize, theme: Theme) -> Line<'static> {
    let style = match row.judged().judgement.verdict {
        Verdict::LikelyLeak => theme.bad(),
        Verdict::Growing => theme.warm(),
        _ => Style::new(),
    };
    let mut fixed = format!("{:>10}", bytes(row.live.bytes));
    if columns.show(Column::Error) {
        fixed += &format!("{:>11}", bytes(row.live.error()));
    }
    if columns.show(Column::Change) {
        let change = row.change.unwrap_or(0.0);
        let sign = if change > 0.0 { "+" } else { "" };
        fixed += &format!("{:>12}", format!("{sign}{}", bytes(change)));
    }
    if columns.show(Column::Rate) {
        let rate = if row.rate > 0.0 {
            bytes(row.rate)
        } else {
            "·".to_owned()
        };
        fixed += &format!("{rate:>12}");
    }
    if columns.show(Column::Age) {
        let age = row.age.map_or("·".to_owned(), short_duration);
        fixed += &format!("{age:>6}");
    }
    let mut spans = vec![Span::raw(fixed + " ")];
    if columns.show(Column::Trend) {
        let curve = format!("{:8} ", sparkline(&row.curve, 8));
        spans.push(Span::styled(curve, theme.good()));
    }
    let flag = if row.judged().judgement.verdict == Verdict::LikelyLeak {
        "LEAK? "
    } else {
        ""
    };
    let room = width.saturating_sub(columns.width + 1 + flag.len());
    spans.push(Span::styled(flag, style.add_modifier(Modifier::BOLD)));
    spans.push(Span::styled(name(row, room), style));
    Line::from(spans)
}

/// The function and its place; where there is no room for both the end of the function is left out.
fn name(row: &Row, room: usize) -> String {
    let place = row.call_site().short_place();
    let function = row.call_site().function();
    let for_function = room.saturating_sub(place.chars().count() + 2);
    if function.chars().count() + place.chars().count() + 2 <= room {
        return format!("{function}  {place}");
    }
    if for_function < 12 {
        return shorten(function, room);
    }
    format!("{}  {place}", shorten(function, for_function))
}

pub fn shorten(text: &str, room: usize) -> String {
    if text.chars().count() <= room {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(room.saturating_sub(1)).collect();
    short.push('…');
    short
}

fn help(frame: &mut Frame, area: Rect, theme: Theme) {
    let block = Block::new()
        .borders(Borders::TOP)
        .border_style(theme.soft())
        .title(" keys and columns ");
    let lines: Vec<Line> = HELP
        .iter()
        .map(|(key, does)| {
            Line::from(vec![
                Span::styled(format!("  {key:<10}"), theme.strong()),
                Span::raw(*does),
            ])
        })
        .collect();
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

fn footer(model: &Model, width: u16, theme: Theme) -> Line<'static> {
    if let Some(message) = &model.message {
        return Line::styled(message.clone(), theme.warm());
    }
    if model.typing {
        return Line::styled(
            "type a part of a name; Enter keeps it, Esc clears it",
            theme.soft(),
        );
    }
    if model.gone {
        let what = match &model.cleared {
            Some(cleared) => format!("{}; this is before", cleared.sentence()),
            None => "this is the last that was read".to_owned(),
        };
        let text = format!(
            "The program has ended; {what}.  w write  q quit  then: freehold leaks {}",
            model.word
        );
        return Line::styled(text, theme.warm());
    }
    let keys = [
        ("q", "quit"),
        ("?", "help"),
        ("↑↓", "select"),
        ("⏎", "details"),
        ("s", "sort"),
        ("/", "filter"),
        ("c", "classes"),
        ("m", "mark"),
        ("d", "diff"),
        ("w", "write"),
        ("t", "heaps"),
        ("p", "pause"),
    ];
    let mut left = usize::from(width);
    let mut spans = Vec::new();
    for (key, does) in keys {
        let length = key.chars().count() + 1 + does.len();
        if length > left {
            break;
        }
        left = left.saturating_sub(length + 2);
        spans.push(Span::styled(key, theme.strong()));
        spans.push(Span::styled(format!(" {does}  "), theme.soft()));
    }
    Line::from(spans)
}
