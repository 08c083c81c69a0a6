//! The store's time: the machine's clock plus an anchor that is fixed once per boot.
//!
//! The folder's `meta` file keeps the anchor and the last recorded time. So the store's time never steps while the
//! machine runs, whatever becomes of the wall clock, and continues from there after a reboot.

use std::sync::OnceLock;

use super::opening::Unopened;
use crate::base::hex::hex;

/// The number of the machine's present boot.
pub(super) type BootId = [u8; 16];

pub(super) const FORMAT: u32 = 1;
/// A time that only a wrong clock shows: the year 2112.
///
/// Fencing tokens begin with the time, and scripts do not distinguish numbers above 2^53.
const LATEST_US: u64 = 1 << 52;

/// Returns the boot of this process; zeros where the system has no such number.
pub(super) fn boot_id() -> BootId {
    static BOOT: OnceLock<BootId> = OnceLock::new();
    *BOOT.get_or_init(|| {
        let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        parse_hex(&text.trim().replace('-', "")).unwrap_or_default()
    })
}

/// Returns the time namespace of this process, in which the machine's clock may be shifted; empty when unknown.
pub(super) fn namespace() -> String {
    let link = std::fs::read_link("/proc/self/ns/time");
    link.map(|link| link.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// Returns the anchor for a boot: by the wall clock, unless that is not after the last recorded time.
pub(super) fn fix(wall_us: u64, boot_us: u64, last_us: u64) -> u64 {
    wall_us
        .max(last_us.saturating_add(1))
        .saturating_sub(boot_us)
}

/// The content of the `meta` file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Meta {
    pub(super) boot: BootId,
    pub(super) anchor_us: u64,
    /// The store's time at the write.
    pub(super) last_us: u64,
    pub(super) namespace: String,
}

/// Why a `meta` file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// It was not opened or read.
    File(Unopened),
    /// Another format, so other programs use this folder: it is left alone.
    Format(String),
    /// A time that no correct clock had.
    Implausible(u64),
    /// Truncated or garbled: the anchor is found in the lock files.
    Damaged,
}

impl Meta {
    pub(super) fn text(&self) -> String {
        let boot = hex(&self.boot);
        format!(
            "leaselock folder {FORMAT}\nboot {boot}\nanchor_us {}\nlast_us {}\ntime_namespace {}\nend\n",
            self.anchor_us, self.last_us, self.namespace
        )
    }

    pub(super) fn parse(text: &str) -> Result<Self, Unreadable> {
        let mut lines = text.lines();
        let format = lines
            .next()
            .and_then(|line| line.strip_prefix("leaselock folder "));
        match format.map(|format| (format, format.parse())) {
            Some((_, Ok(FORMAT))) => {}
            Some((format, Ok(_))) => return Err(Unreadable::Format(format.to_owned())),
            _ => return Err(Unreadable::Damaged),
        }
        let mut field = |name: &str| {
            let line = lines.next().and_then(|line| line.strip_prefix(name));
            line.map(|value| value.trim_start().to_owned())
                .ok_or(Unreadable::Damaged)
        };
        let number = |text: &str| text.parse().map_err(|_| Unreadable::Damaged);
        let meta = Meta {
            boot: parse_hex(&field("boot")?).ok_or(Unreadable::Damaged)?,
            anchor_us: number(&field("anchor_us")?)?,
            last_us: number(&field("last_us")?)?,
            namespace: field("time_namespace")?,
        };
        field("end")?;
        match meta.anchor_us.max(meta.last_us) {
            us if us > LATEST_US => Err(Unreadable::Implausible(us)),
            _ => Ok(meta),
        }
    }
}

/// What lock files show about time, when the `meta` file is lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Traces {
    /// The anchor of this boot.
    pub(super) anchor_us: Option<u64>,
    /// The latest time of a write in an earlier boot.
    pub(super) last_us: u64,
}

impl Traces {
    pub(super) fn add(&mut self, this_boot: &BootId, boot: &BootId, anchor_us: u64, boot_us: u64) {
        if anchor_us.saturating_add(boot_us) > LATEST_US {
            return; // written while `meta` had a time that no clock had
        }
        if boot == this_boot {
            self.anchor_us = self.anchor_us.max(Some(anchor_us));
        } else {
            self.last_us = self.last_us.max(anchor_us.saturating_add(boot_us));
        }
    }

    pub(super) fn anchor(&self, wall_us: u64, boot_us: u64) -> u64 {
        self.anchor_us
            .unwrap_or_else(|| fix(wall_us, boot_us, self.last_us))
    }
}

fn parse_hex(text: &str) -> Option<BootId> {
    let number = u128::from_str_radix(text, 16)
        .ok()
        .filter(|_| text.len() == 32)?;
    Some(number.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta() -> Meta {
        Meta {
            boot: [9; 16],
            anchor_us: 17,
            last_us: 42,
            namespace: "time:[4026531834]".to_owned(),
        }
    }

    #[test]
    fn a_meta_file_comes_back_from_its_text_and_no_part_of_it_does() {
        let text = meta().text();
        assert_eq!(Meta::parse(&text), Ok(meta()));
        for length in 0..text.len() - 1 {
            assert_eq!(
                Meta::parse(&text[..length]),
                Err(Unreadable::Damaged),
                "{length}"
            );
        }
        let unknown = text.replace("folder 1", "folder 2");
        assert_eq!(
            Meta::parse(&unknown),
            Err(Unreadable::Format("2".to_owned()))
        );
    }

    #[test]
    fn time_goes_on_from_the_last_recorded_when_the_wall_clock_is_earlier() {
        let (wall, boot, last) = (1_000, 500, 70_000);
        assert_eq!(fix(wall, boot, last) + boot, last + 1);
        assert_eq!(fix(90_000, boot, last) + boot, 90_000);
        assert_eq!(fix(3, boot, 4), 0, "a clock from before the boot");
    }

    #[test]
    fn lock_files_of_this_boot_give_the_very_same_anchor_back() {
        let mut traces = Traces::default();
        traces.add(&[1; 16], &[2; 16], 1_000_000, 500);
        assert_eq!(traces.anchor(10, 100) + 100, 1_000_501);
        traces.add(&[1; 16], &[1; 16], 77, 3);
        assert_eq!(traces.anchor(10, 100), 77);
    }

    #[test]
    fn this_boot_has_a_number() {
        assert!(!cfg!(target_os = "linux") || boot_id() != [0; 16]);
    }
}
