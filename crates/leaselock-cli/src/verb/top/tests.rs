//! Frames on terminals of many sizes, and what keys make of a view.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use leaselock::inspect::{Holding, Inspection};
use leaselock::{Client, Wait};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::{Color, Modifier};

use super::draw;
use super::fetch::{Seen, Wish, fetch};
use super::input::{Action, action};
use super::view::{Effect, Pane, Prompt, View};
use crate::exit::Exit;
use crate::failure::Failure;

/// A writer that another waits for, two readers, and two holders of permits, in memory.
async fn with_locks<T>(test: impl AsyncFnOnce(&Client) -> T) -> T {
    let client = Client::open("mem:").unwrap();
    let hostile = "x\u{202e}x 文字";
    let nightly = client.mutex("nightly").note(hostile);
    let nightly = nightly.acquire().await.unwrap();
    let read = [client.rwlock("config"), client.rwlock("config")];
    let read = [read[0].read().await.unwrap(), read[1].read().await.unwrap()];
    let pool = client.semaphore("pool", 4).acquire().await.unwrap();
    let other = client.mutex("a-name-that-is-much-longer-than-any-column-may-be-on-a-terminal");
    let other = other.acquire().await.unwrap();
    let next = client.mutex("nightly").wait(Wait::Forever);
    let outcome = tokio::select! {
        lease = next.acquire() => panic!("{lease:?}"),
        outcome = async {
            // A client tells who it is, and the note, just after the grant.
            let is_told = |seen: Inspection| {
                let holder = seen.state.exclusive().unwrap();
                seen.waiter_count > 0 && holder.note.is_some() && holder.process.as_ref().unwrap().name.is_some()
            };
            while !is_told(client.inspect("nightly").await.unwrap()) {
                tokio::task::yield_now().await;
            }
            test(&client).await
        } => outcome,
    };
    drop((nightly, read, pool, other));
    outcome
}

async fn all(client: &Client) -> Seen {
    let wish = Wish {
        locks: true,
        events: true,
        ..Wish::default()
    };
    fetch(client, "*", wish).await
}

async fn view(client: &Client) -> View {
    let mut view = View {
        store: "memory".to_owned(),
        has_colours: true,
        has_unicode: true,
        is_live: true,
        may_break: true,
        ..View::default()
    };
    let mut seen = all(client).await;
    let locks = &mut seen.locks.as_mut().unwrap().0;
    for lock in locks.iter_mut() {
        let Holding::Held { holders, .. } = &mut lock.state else {
            panic!("{lock:?}")
        };
        // Whatever this host is called: as long as may be, and longer than its column.
        let processes = holders.iter_mut().filter_map(|one| one.process.as_mut());
        processes.for_each(|process| process.host = Some("h".repeat(63)));
    }
    view.learn(seen);
    view
}

fn fail(view: &mut View, text: &str) {
    let trouble = Some(Failure::internal(text));
    view.learn(Seen {
        trouble,
        ..Seen::default()
    });
}

fn terminal(view: &View, width: u16, height: u16) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal
        .draw(|frame| draw::draw(frame.buffer_mut(), view))
        .unwrap();
    terminal
}

fn lines(view: &View, width: u16, height: u16) -> Vec<String> {
    let terminal = terminal(view, width, height);
    let text = draw::text(terminal.backend().buffer());
    text.lines().map(str::to_owned).collect()
}

fn press(view: &mut View, keys: &[KeyCode]) -> Effect {
    let mut effect = Effect::Nothing;
    for code in keys {
        let key = KeyEvent::new(*code, KeyModifiers::NONE);
        let action = action(key, view.prompt.is_some()).unwrap();
        effect = view.apply(action);
    }
    effect
}

fn typed(text: &str) -> Vec<KeyCode> {
    text.chars().map(KeyCode::Char).collect()
}

fn names(view: &View) -> Vec<String> {
    let rows = view.rows(0, usize::MAX).into_iter();
    rows.map(|lock| lock.name.clone()).collect()
}

#[tokio::test(flavor = "current_thread")]
async fn columns_fall_away_from_the_right_and_the_queue_of_the_chosen_lock_is_below() {
    with_locks(async |client| {
        let mut view = view(client).await;
        press(&mut view, &[KeyCode::Enter]);
        let all = "NAME WAITING HELD BY KIND PID HOST EXPIRES NOTE";
        for (width, columns) in [(60, 4), (80, 5), (160, 9)] {
            let lines = lines(&view, width, 20);
            let headings: Vec<&str> = lines[2].split_whitespace().collect();
            assert!(headings.len() >= columns, "{width}: {headings:?}");
            assert!(all.starts_with(&headings.join(" ")), "{headings:?}");
            assert_eq!(headings.len() == 9, width == 160, "{headings:?}");
            assert!(lines[0].starts_with("leaselock top  the most waiters first  memory"));
            let overview = "4 held  1 contended  1 waiting  sweep ";
            assert!(lines[1].starts_with(overview), "{lines:?}");
            assert!(lines[3].starts_with("nightly ") && lines[3].contains(" 1 "));
            let text = lines.join("\n");
            assert!(text.contains("\nnightly: held by "), "{text}");
            assert!(text.contains("\n  1. "), "{text}");
            assert!(text.contains("2 holders"), "{text}");
            assert!(lines.iter().all(|it| it.chars().count() <= width.into()));
        }
        let wide = lines(&view, 160, 20).join("\n");
        assert!(wide.contains("x\u{fffd}x 文字"), "{wide}");
        assert!(wide.contains("longest wait ") && wide.contains(" for nightly"));
    })
    .await;
}

#[tokio::test(flavor = "current_thread")]
async fn a_terminal_of_any_size_has_a_frame() {
    with_locks(async |client| {
        let mut view = view(client).await;
        fail(&mut view, "down");
        let panes = [
            Pane::Table,
            Pane::Lock,
            Pane::Events,
            Pane::Report,
            Pane::Help,
        ];
        for pane in panes {
            view.pane = pane;
            for prompt in [None, Some(Prompt::Filter)] {
                view.prompt = prompt;
                for (width, height) in (0..40).flat_map(|w| (0..9).map(move |h| (w, h))) {
                    let cells = terminal(&view, width, height);
                    let count = cells.backend().buffer().content.len();
                    assert_eq!(count, usize::from(width * height));
                }
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "current_thread")]
async fn without_colours_none_is_set_and_without_unicode_all_is_ascii() {
    with_locks(async |client| {
        let cells = |view: &View| {
            let terminal = terminal(view, 160, 20);
            terminal.backend().buffer().content.clone()
        };
        let coloured = cells(&view(client).await);
        assert!(coloured.iter().any(|cell| cell.fg == Color::Yellow));
        assert!(coloured.iter().any(|cell| !cell.symbol().is_ascii()));
        let mut view = view(client).await;
        (view.has_colours, view.has_unicode) = (false, false);
        fail(&mut view, "down");
        let plain = cells(&view);
        assert!(plain.iter().all(|cell| cell.fg == Color::Reset));
        assert!(plain.iter().all(|cell| cell.symbol().is_ascii()));
        let is_chosen = |cell: &&ratatui::buffer::Cell| cell.modifier.contains(Modifier::REVERSED);
        assert_eq!(plain.iter().filter(is_chosen).count(), 160, "one row");
    })
    .await;
}

#[tokio::test(flavor = "current_thread")]
async fn rows_are_filtered_and_sorted_and_the_chosen_one_stays_chosen() {
    with_locks(async |client| {
        let mut view = view(client).await;
        assert_eq!(names(&view)[0], "nightly", "the most waiters first");
        assert_eq!(view.chosen().unwrap().name, "nightly");
        press(&mut view, &typed("s"));
        assert_eq!(names(&view)[1..], ["config", "nightly", "pool"]);
        assert_eq!(
            (view.chosen().unwrap().name.as_str(), view.at),
            ("nightly", 2)
        );
        press(&mut view, &[KeyCode::Down, KeyCode::Down, KeyCode::Down]);
        assert_eq!(view.chosen().unwrap().name, "pool");
        press(&mut view, &typed("KK"));
        assert_eq!(names(&view), ["config"]);
        press(&mut view, &typed("KK"));
        assert_eq!(names(&view), ["pool"]);
        press(&mut view, &typed("K"));
        assert!(names(&view).is_empty() && view.choice().contains("only leader"));
        press(&mut view, &typed("KKKc"));
        assert_eq!(names(&view), ["nightly"]);
        press(&mut view, &typed("c/oo"));
        assert_eq!(names(&view), ["pool"]);
        press(&mut view, &[KeyCode::Backspace, KeyCode::Enter]);
        assert_eq!(names(&view), [names(&view)[0].as_str(), "config", "pool"]);
        press(&mut view, &[KeyCode::Esc, KeyCode::End]);
        assert_eq!((names(&view).len(), view.at), (4, 3));
        press(&mut view, &[KeyCode::PageUp, KeyCode::Char('k')]);
        assert_eq!(view.at, 0);
        assert_eq!(press(&mut view, &typed("q")), Effect::End(Exit::OK));
    })
    .await;
}

#[tokio::test(flavor = "current_thread")]
async fn a_break_asks_for_the_name_and_the_reason_and_breaks_the_grant_that_was_seen() {
    with_locks(async |client| {
        let mut view = view(client).await;
        let fence = view.chosen().unwrap().state.exclusive().unwrap().fence;
        press(&mut view, &typed("bnightl"));
        assert_eq!(press(&mut view, &[KeyCode::Enter]), Effect::Nothing);
        assert_eq!(
            view.said.as_deref(),
            Some("that is not its name; nothing was broken")
        );
        press(&mut view, &typed("bnightly"));
        assert!(lines(&view, 60, 20)[19].ends_with("type its name: nightly_"));
        assert_eq!(press(&mut view, &[KeyCode::Enter]), Effect::Nothing);
        press(&mut view, &typed("stuck"));
        let Effect::Ask(wish) = press(&mut view, &[KeyCode::Enter]) else {
            panic!("it is not broken");
        };
        let (target, why) = wish.breaking.as_ref().unwrap();
        let seen = (target.name.as_str(), &target.grants[..]);
        assert_eq!(seen, ("nightly", fence.as_slice()));
        assert_eq!(why, "stuck");
        let said = fetch(client, "*", wish).await.said.unwrap();
        assert!(said.starts_with("`nightly` was taken from "), "{said}");

        let mut reader = self::view(client).await;
        reader.may_break = false;
        assert_eq!(press(&mut reader, &typed("b")), Effect::Nothing);
        assert_eq!(reader.prompt, None);
    })
    .await;
}

#[tokio::test(flavor = "current_thread")]
async fn the_report_of_doctor_is_whole_at_every_width_and_asked_for_when_it_is_opened() {
    with_locks(async |client| {
        let mut view = view(client).await;
        let Effect::Ask(wish) = press(&mut view, &typed("d")) else {
            panic!("it is not asked for");
        };
        assert!(wish.report && !wish.locks && !view.wish().report);
        assert_eq!(lines(&view, 60, 20)[2], "asking the store");
        let chosen = view.at;
        view.learn(fetch(client, "*", wish).await);
        let words =
            |text: &str| -> Vec<String> { text.split_whitespace().map(str::to_owned).collect() };
        let expected = words(&view.report.join("\n"));
        assert!(expected.contains(&"fit".to_owned()), "{expected:?}");
        for width in [60, 80, 160] {
            let lines = lines(&view, width, 200);
            assert!(lines.iter().all(|it| it.chars().count() <= width.into()));
            let (foot, report) = lines[2..].split_last().unwrap();
            assert!(foot.starts_with("Enter lock"));
            assert_eq!(words(&report.join("\n")), expected, "{width}");
        }
        let second = view.report[1].clone();
        press(&mut view, &typed("j"));
        assert_eq!((&view.report[view.report_from], view.at), (&second, chosen));
        press(&mut view, &[KeyCode::End, KeyCode::Down]);
        assert_eq!(view.report_from, view.report.len() - 1);
        assert_eq!(press(&mut view, &typed("d")), Effect::Nothing);
        assert_eq!(view.pane, Pane::Table);
    })
    .await;
}

#[tokio::test(flavor = "current_thread")]
async fn while_the_store_is_down_the_frame_stays_with_the_error_and_its_age() {
    with_locks(async |client| {
        let mut view = view(client).await;
        let second = |count: u64| count * 1_000_000_000;
        for now in [0, 2, 4] {
            view.now = second(now);
            fail(&mut view, &format!("refused at {now}"));
        }
        view.now = second(9);
        let down = lines(&view, 80, 20);
        assert_eq!(down[2], "no news for 9 s: refused at 4");
        assert!(down[1].contains(" 9 s ago") && down[4].starts_with("nightly "));
        view.learn(all(client).await);
        assert!(!lines(&view, 80, 20).join("").contains("no news"));
    })
    .await;
}

#[tokio::test(flavor = "current_thread")]
async fn no_news_lasts_since_the_list_on_the_screen_was_read() {
    with_locks(async |client| {
        let mut view = view(client).await;
        view.now = 6_000_000_000;
        fail(&mut view, "refused");
        view.now += 3_000_000_000;
        let down = lines(&view, 80, 20);
        assert_eq!(down[2], "no news for 9 s: refused");
    })
    .await;
}

#[tokio::test(flavor = "current_thread")]
async fn a_log_that_was_not_read_is_not_said_to_be_empty() {
    with_locks(async |client| {
        let mut view = View {
            is_live: true,
            ..View::default()
        };
        view.learn(fetch(client, "*", view.wish()).await);
        let Effect::Ask(wish) = press(&mut view, &typed("e")) else {
            panic!("it is not asked for");
        };
        assert_eq!(lines(&view, 80, 20)[2], "asking the store");
        fail(&mut view, "down");
        let down = lines(&view, 80, 20).join("\n");
        assert!(
            !down.contains("asking") && !down.contains("entry"),
            "{down}"
        );
        view.learn(fetch(client, "*", wish).await);
        assert_eq!(lines(&view, 80, 20)[2], "the log has no entry");
    })
    .await;
}

#[tokio::test(flavor = "current_thread")]
async fn a_result_an_error_an_entry_and_a_lock_are_whole_on_a_narrow_terminal() {
    with_locks(async |client| {
        let mut view = view(client).await;
        let text = |what: &str| {
            let words = (0..20).map(|count| format!("{what}{count}"));
            words.collect::<Vec<_>>().join(" ")
        };
        fail(&mut view, &text("refused"));
        view.learn(Seen {
            said: Some(text("taken")),
            trouble: Some(Failure::internal(text("refused"))),
            events: Some(vec![text("old"), format!("at  broken  {}", text("new"))]),
            ..Seen::default()
        });
        let words = |view: &View, height| {
            let text = lines(view, 70, height).join(" ");
            text.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        view.pane = Pane::Lock;
        let shown = words(&view, 40);
        assert!(shown.contains(&text("refused")), "{shown}");
        assert!(shown.ends_with(&text("taken")), "{shown}");
        let fence = view.chosen().unwrap().state.exclusive().unwrap().fence;
        let end = format!("; fence {} 1. ", fence.unwrap());
        assert!(shown.contains(&end), "{shown}");
        view.pane = Pane::Events;
        let shown = words(&view, 11);
        assert!(shown.contains(&text("new")), "{shown}");
        assert!(!shown.contains("old0 "), "{shown}");
    })
    .await;
}

#[test]
fn letters_are_letters_while_a_text_is_typed_and_keys_otherwise() {
    let plain = |code| KeyEvent::new(code, KeyModifiers::NONE);
    let ctrl = |c| KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL);
    let q = plain(KeyCode::Char('q'));
    assert_eq!(action(q, true), Some(Action::Type('q')));
    assert_eq!(action(q, false), Some(Action::Do('q')));
    for is_typing in [true, false] {
        assert_eq!(action(ctrl('c'), is_typing), Some(Action::Interrupt));
        assert_eq!(action(ctrl('z'), is_typing), None);
        assert_eq!(action(plain(KeyCode::Esc), is_typing), Some(Action::Back));
    }
    assert_eq!(action(plain(KeyCode::F(1)), false), None);
}

/// The other half runs in a process of its own, on a terminal.
#[test]
fn a_panic_gives_the_terminal_back_before_it_says_what_was_wrong() {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use std::io::Read as _;

    const INSIDE: &str = "LEASELOCK_TEST_PANICS_INSIDE";
    if std::env::var_os(INSIDE).is_some() {
        let _screen = super::screen::Screen::open().unwrap();
        panic!("said below the table");
    }
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap();
    let mut options = std::fs::File::options();
    let theirs = options.read(true).write(true);
    let theirs = theirs.open(name.to_str().unwrap()).unwrap();
    let path = "verb::top::tests::a_panic_gives_the_terminal_back_before_it_says_what_was_wrong";
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "--nocapture", path])
        .env(INSIDE, "1")
        .stdin(theirs.try_clone().unwrap())
        .stdout(theirs.try_clone().unwrap())
        .stderr(theirs.try_clone().unwrap());
    let mut child = command.spawn().unwrap();
    drop(command);
    let reader = std::thread::spawn(move || {
        let (mut ours, mut text, mut piece) = (std::fs::File::from(ours), Vec::new(), [0; 4096]);
        // It fails once no process has the other end.
        while let Ok(length @ 1..) = ours.read(&mut piece) {
            text.extend_from_slice(&piece[..length]);
        }
        String::from_utf8_lossy(&text).into_owned()
    });
    assert!(!child.wait().unwrap().success());
    let modes = rustix::termios::tcgetattr(&theirs).unwrap().local_modes;
    assert!(modes.contains(rustix::termios::LocalModes::ECHO));
    drop(theirs);
    let text = reader.join().unwrap();
    let at = |words: &str| {
        text.find(words)
            .unwrap_or_else(|| panic!("{words}: {text:?}"))
    };
    assert!(at("\u{1b}[?1049h") < at("\u{1b}[?1049l"));
    assert!(at("\u{1b}[?1049l") < at("said below the table"));
}
