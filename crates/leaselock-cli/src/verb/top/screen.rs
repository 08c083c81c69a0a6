//! The terminal: taken over as a whole, and given back in every case.

use std::io::{self, Stdout, stdout};
use std::mem::ManuallyDrop;

use crossterm::cursor::{Hide, Show};
use crossterm::event::{Event, KeyEvent, KeyEventKind, read};
use crossterm::execute;
use crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::backend::CrosstermBackend;
use ratatui::layout::Rect;
use ratatui::{Terminal, TerminalOptions, Viewport};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::draw;
use super::view::View;

/// The whole terminal, until it is dropped.
pub(super) struct Screen {
    /// Never dropped: it would print an error of a terminal that is gone, and panic because it cannot.
    terminal: ManuallyDrop<Terminal<CrosstermBackend<Stdout>>>,
    area: Rect,
}

impl Screen {
    /// Takes it over. A panic gives it back before it says what was wrong.
    pub(super) fn open() -> io::Result<Screen> {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            leave();
            before(info);
        }));
        enter()?;
        let area = area();
        let viewport = Viewport::Fixed(area);
        let backend = CrosstermBackend::new(stdout());
        let made = Terminal::with_options(backend, TerminalOptions { viewport });
        let terminal = made.map(ManuallyDrop::new);
        let screen = terminal.map(|terminal| Screen { terminal, area });
        screen.inspect_err(|_| leave())
    }

    /// Takes it over again, after a shell had it while this process was stopped.
    pub(super) fn resume(&mut self) -> io::Result<()> {
        leave();
        enter()?;
        self.terminal.clear()
    }

    pub(super) fn draw(&mut self, view: &View) -> io::Result<()> {
        let area = area();
        if area != self.area {
            self.terminal.resize(area)?;
            self.area = area;
        }
        self.terminal
            .draw(|frame| draw::draw(frame.buffer_mut(), view))?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        leave();
    }
}

fn enter() -> io::Result<()> {
    enable_raw_mode()?;
    execute!(stdout(), EnterAlternateScreen, Hide).inspect_err(|_| leave())
}

/// Also of a terminal that is gone, so errors are ignored; a second time it does no harm.
fn leave() {
    execute!(stdout(), Show, LeaveAlternateScreen).ok();
    disable_raw_mode().ok();
}

fn area() -> Rect {
    // A terminal that was never told its size, as on a serial line, says 0.
    let size = rustix::termios::tcgetwinsize(stdout()).ok();
    let size = size.filter(|size| size.ws_col > 0 && size.ws_row > 0);
    let (columns, rows) = size.map_or((80, 24), |size| (size.ws_col, size.ws_row));
    Rect::new(0, 0, columns, rows)
}

/// The keys as they are pressed. When the terminal is gone no key comes any more, and the next frame fails.
pub(super) fn keys() -> UnboundedReceiver<KeyEvent> {
    let (pressed, keys) = unbounded_channel();
    std::thread::spawn(move || {
        while let Ok(event) = read() {
            let key = match event {
                Event::Key(key) if key.kind != KeyEventKind::Release => key,
                _ => continue,
            };
            if pressed.send(key).is_err() {
                return;
            }
        }
    });
    keys
}
