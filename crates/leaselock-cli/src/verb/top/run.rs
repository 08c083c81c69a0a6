//! The loop: keys, signals, and readings of the store at their times.

use std::collections::VecDeque;
use std::future::Future;
use std::io::{IsTerminal as _, stdout};
use std::pin::Pin;
use std::time::Duration;

use leaselock::Client;
use leaselock::satellite::rounded;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use rustix::process::Signal;

use super::fetch::{Seen, fetch};
use super::screen::{Screen, keys};
use super::view::{Effect, View};
use super::{draw, input};
use crate::args::Globals;
use crate::args::top::TopArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::procfs::Status;
use crate::session::Purpose;
use crate::signals::{SignalStream, Signals};
use crate::{boottime, output, session, show, table};

/// The shortest time between two readings of the store.
const SHORTEST: Duration = Duration::from_millis(100);
/// The ages on the screen are renewed so often.
const TICK: Duration = Duration::from_secs(1);
/// So many times as long as the store has listed the locks it is left alone.
const PAUSES: u32 = 4;
/// The width of a frame that no terminal cuts.
const WIDTH: u16 = 160;
/// The height of one with very many locks.
const HEIGHT: u16 = 1_000;

/// Draws until a key or a signal ends it, or once.
pub(crate) fn run(args: &TopArgs, globals: &Globals) -> Result<Exit, Failure> {
    if args.every < SHORTEST {
        let text = format!("--every: give {} or more", rounded(SHORTEST));
        return Err(Failure::new(text, Exit::USAGE));
    }
    let is_live = stdout().is_terminal() && !args.once && !globals.json;
    // Before there is a second thread.
    let signals = is_live.then(|| Signals::block(&Status::read()?));
    let client = session::one_store(globals, Purpose::Operator, "top")?;
    let variable = |name| std::env::var(name).ok().filter(|it| !it.is_empty());
    let mut locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter();
    let locale = locale.find_map(variable).unwrap_or_default();
    let mut view = View {
        store: output::sanitized(&client.store()),
        has_colours: variable("NO_COLOR").is_none(),
        has_unicode: !is_live || locale.to_lowercase().replace('-', "").contains("utf8"),
        is_live,
        may_break: args.allow_break,
        ..View::default()
    };
    session::block_on(async {
        if let Some(signals) = signals {
            return live(view, &client, args, &signals?.listen()?).await;
        }
        let seen = fetch(&client, &args.pattern, view.wish()).await;
        view.now = boottime::now();
        view.learn(Seen {
            trouble: seen.trouble.map_or(Ok(None), Err)?,
            ..seen
        });
        let objects = view
            .locks
            .iter()
            .map(|lock| output::json(&show::json(lock)));
        let text = match globals.json {
            true => objects.collect(),
            false => frame(&view),
        };
        Ok(output::print(text.as_bytes()).map(|()| Exit::OK)?)
    })
}

/// A frame as text, as long as the table is.
fn frame(view: &View) -> String {
    /// The lines above, and one below that says how many locks are left out.
    const OTHERS: usize = 5;
    let limited = |size: usize, most: u16| u16::try_from(size).map_or(most, |it| it.min(most));
    let width = table::width().map_or(WIDTH, |width| limited(width, HEIGHT));
    let height = limited(view.shown.len() + OTHERS, HEIGHT);
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
    draw::draw(&mut buffer, view);
    draw::text(&buffer)
}

/// What is being asked for.
type Asking<'a> = Option<Pin<Box<dyn Future<Output = Seen> + 'a>>>;

async fn live(
    mut view: View,
    client: &Client,
    args: &TopArgs,
    signals: &SignalStream,
) -> Result<Exit, Failure> {
    let mut screen = Screen::open()?;
    let mut keys = keys();
    let (mut asking, mut wished, mut next_at) = (Asking::None, VecDeque::new(), 0);
    loop {
        view.now = boottime::now();
        let is_due = view.now >= next_at && !view.is_paused;
        if asking.is_none()
            && let Some(wish) = wished.pop_front().or(is_due.then(|| view.wish()))
        {
            asking = Some(Box::pin(fetch(client, &args.pattern, wish)));
        }
        screen.draw(&view)?;
        let until_next = Duration::from_nanos(next_at.saturating_sub(view.now));
        let is_idle = asking.is_none() && !view.is_paused;
        let pause = if is_idle { until_next.min(TICK) } else { TICK };
        tokio::select! {
            biased;
            received = signals.next() => match received?.signal {
                Signal::CONT => screen.resume()?,
                Signal::WINCH | Signal::TSTP => {}
                signal => return Ok(Exit::by_signal(signal)),
            },
            key = keys.recv() => {
                // Without keys the terminal is gone.
                let Some(key) = key else { return Ok(Exit::by_signal(Signal::HUP)) };
                let action = input::action(key, view.prompt.is_some());
                match action.map_or(Effect::Nothing, |action| view.apply(action)) {
                    Effect::Nothing => {}
                    Effect::Ask(wish) => wished.push_back(wish),
                    Effect::End(exit) => return Ok(exit),
                }
            }
            mut seen = reply(&mut asking) => {
                asking = None;
                // What is wrong with the command line does not pass.
                if let Some(wrong) = seen.trouble.take_if(|it| it.exit == Exit::USAGE) {
                    return Err(wrong);
                }
                view.now = boottime::now();
                let took = seen.locks.as_ref().map(|(_, took)| *took);
                if let Some(took) = took.or(seen.trouble.as_ref().map(|_| Duration::ZERO)) {
                    let pause = args.every.saturating_sub(took).max(took * PAUSES);
                    next_at = view.now.saturating_add(boottime::nanoseconds(pause));
                }
                view.learn(seen);
            }
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// The reply, when it comes; never, if nothing is asked.
async fn reply(asking: &mut Asking<'_>) -> Seen {
    match asking {
        Some(asking) => asking.await,
        None => std::future::pending().await,
    }
}
