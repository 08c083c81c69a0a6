//! Keys, and what each of them means.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// What the operator wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// So many rows down, or up.
    Move(isize),
    /// Open the chosen lock, or take what was typed.
    Enter,
    /// Close what is open, or drop what was typed.
    Back,
    /// What the letter stands for.
    Do(char),
    Type(char),
    Erase,
    Interrupt,
}

/// The meaning of a key; while a text is typed, letters are letters.
pub(super) fn action(key: KeyEvent, is_typing: bool) -> Option<Action> {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return (key.code == KeyCode::Char('c')).then_some(Action::Interrupt);
    }
    Some(match key.code {
        KeyCode::Enter => Action::Enter,
        KeyCode::Esc => Action::Back,
        KeyCode::Backspace if is_typing => Action::Erase,
        KeyCode::Char(c) if is_typing => Action::Type(c),
        KeyCode::Down | KeyCode::Char('j') => Action::Move(1),
        KeyCode::Up | KeyCode::Char('k') => Action::Move(-1),
        KeyCode::PageDown => Action::Move(10),
        KeyCode::PageUp => Action::Move(-10),
        KeyCode::Home => Action::Move(isize::MIN),
        KeyCode::End => Action::Move(isize::MAX),
        KeyCode::Char(c) => Action::Do(c),
        _ => return None,
    })
}
