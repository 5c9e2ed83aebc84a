//! What the keys do. Whatever needs the program or the disk is given back as a wish.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::model::{Model, Pane};

/// What a key asks for beyond the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    Nothing,
    Quit,
    Refresh,
    Mark,
    Save,
}

/// Lines of the help.
pub const HELP: [(&str, &str); 15] = [
    (
        "↑ ↓ k j",
        "select a site; PgUp and PgDn by ten, Home to the first",
    ),
    (
        "Enter",
        "details: stack, lifetimes, verdict; again or Esc goes back",
    ),
    ("← →", "in details: the other stacks that lead to this line"),
    ("s", "sort by live bytes, rate, change, age, name"),
    (
        "/",
        "show only sites with this text in their stack; Esc clears",
    ),
    ("c", "size classes: how full they are"),
    ("t", "the tree of heaps that the program has made"),
    ("m", "set a mark in the program, and count changes from now"),
    (
        "d",
        "count changes from now, without a mark; again stops it",
    ),
    ("w", "write a snapshot to a file, and count changes from it"),
    ("p space", "pause and go on"),
    ("r", "look now"),
    (
        "LIVE ±",
        "estimated from samples, with one standard deviation",
    ),
    ("AGE", "half of the site's live samples are older"),
    ("q", "quit"),
];

pub fn press(model: &mut Model, key: KeyEvent) -> Wish {
    if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
        return Wish::Quit;
    }
    model.message = None;
    if model.typing {
        return type_filter(model, key.code);
    }
    match key.code {
        KeyCode::Char('q') => return Wish::Quit,
        KeyCode::Esc if model.pane != Pane::Sites => model.pane = Pane::Sites,
        KeyCode::Esc => {
            model.filter.clear();
            model.arrange();
        }
        KeyCode::Up | KeyCode::Char('k') => model.select(-1),
        KeyCode::Down | KeyCode::Char('j') => model.select(1),
        KeyCode::PageUp => model.select(-10),
        KeyCode::PageDown => model.select(10),
        KeyCode::Home => model.select(isize::MIN / 2),
        KeyCode::End => model.select(isize::MAX / 2),
        KeyCode::Enter => toggle(model, Pane::Details),
        KeyCode::Left => model.turn(-1),
        KeyCode::Right => model.turn(1),
        KeyCode::Char('c') => toggle(model, Pane::Classes),
        KeyCode::Char('t') => toggle(model, Pane::Heaps),
        KeyCode::Char('?' | 'h') => toggle(model, Pane::Help),
        KeyCode::Char('s') => {
            model.sort = model.sort.next();
            sort_from_top(model);
        }
        KeyCode::Char('/') => {
            model.typing = true;
            model.pane = Pane::Sites;
        }
        KeyCode::Char('d') => {
            if model.baseline_name().is_some() {
                model.clear_baseline();
            } else {
                model.set_baseline("when d was pressed".to_owned());
            }
        }
        KeyCode::Char('p' | ' ') => model.paused = !model.paused,
        KeyCode::Char('r') => return Wish::Refresh,
        KeyCode::Char('m') => return Wish::Mark,
        KeyCode::Char('w') => return Wish::Save,
        _ => model.message = Some("? shows the keys".to_owned()),
    }
    Wish::Nothing
}

fn toggle(model: &mut Model, pane: Pane) {
    model.stack = 0;
    model.pane = if model.pane == pane {
        Pane::Sites
    } else {
        pane
    };
}

/// A new order is looked at from its top.
fn sort_from_top(model: &mut Model) {
    model.arrange();
    model.selected = 0;
}

fn type_filter(model: &mut Model, code: KeyCode) -> Wish {
    match code {
        KeyCode::Enter => model.typing = false,
        KeyCode::Esc => {
            model.typing = false;
            model.filter.clear();
        }
        KeyCode::Backspace => {
            model.filter.pop();
        }
        KeyCode::Char(letter) => model.filter.push(letter),
        _ => {}
    }
    model.selected = 0;
    model.stack = 0;
    model.arrange();
    Wish::Nothing
}
