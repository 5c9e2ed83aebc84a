//! A list of observed programs to choose from, where there are several.

use anyhow::Result;
use profile_file::Target;
use profile_file::target::{Choice, every_page};
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind};
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

use super::screen::Theme;

/// The program that the person chooses; none if they leave. One alone needs no question.
pub fn choose() -> Result<Option<Target>> {
    let mut choices: Vec<Choice> = every_page()
        .into_iter()
        .filter(|choice| matches!(choice.target, Target::Live { .. }))
        .collect();
    if choices.len() < 2 {
        return Ok(Some(Target::only()?));
    }
    let mut terminal = ratatui::init();
    let chosen = ask(&mut terminal, &choices);
    ratatui::restore();
    Ok(chosen?.map(|place| choices.swap_remove(place).target))
}

fn ask(terminal: &mut ratatui::DefaultTerminal, choices: &[Choice]) -> Result<Option<usize>> {
    let theme = Theme::of_environment();
    let mut selected = 0usize;
    loop {
        terminal.draw(|frame| draw(frame, choices, selected, theme))?;
        let Event::Key(key) = event::read()? else {
            continue;
        };
        if key.kind != KeyEventKind::Press {
            continue;
        }
        match key.code {
            KeyCode::Char('q' | 'c') | KeyCode::Esc => return Ok(None),
            KeyCode::Up | KeyCode::Char('k') => selected = selected.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => selected = (selected + 1).min(choices.len() - 1),
            KeyCode::Enter => return Ok(Some(selected)),
            _ => {}
        }
    }
}

pub fn draw(frame: &mut Frame, choices: &[Choice], selected: usize, theme: Theme) {
    let mut lines = vec![
        Line::styled("Observed programs", theme.strong()),
        Line::styled("↑↓ select  ⏎ look  q quit", theme.soft()),
        Line::default(),
    ];
    let room = usize::from(frame.area().height)
        .saturating_sub(lines.len())
        .max(1);
    let first = (selected + 1).saturating_sub(room);
    for (place, choice) in choices.iter().enumerate().skip(first).take(room) {
        let pid = choice
            .target
            .pid()
            .map_or(String::new(), |pid| pid.to_string());
        let line = Line::from(format!("{pid:>8}  {}", choice.program));
        lines.push(if place == selected {
            line.style(theme.selected())
        } else {
            line
        });
    }
    frame.render_widget(Paragraph::new(lines), frame.area());
}
