//! The record of a client: its host, process and start. It is written once per client, not with every lease.

use crate::base::clock;
use crate::base::process::{Process, TEXT_MAX, tame};
use crate::base::ttl::Ttl;
use crate::script::Scripts;
use crate::script::{Answer, Call, Malformed, Operation, Script, script};

/// The scripts of the client's record.
pub(crate) static SCRIPTS: Scripts = &[&ANNOUNCE, &WHO];

/// What a client says of its process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SelfDescription {
    pub(crate) host: String,
    pub(crate) pid: u32,
    pub(crate) name: String,
    /// In milliseconds since 1970.
    pub(crate) started_unix_ms: u64,
}

impl SelfDescription {
    /// Describes the client with this id, which may have said nothing.
    pub(crate) fn process(client: String, about: Option<SelfDescription>) -> Process {
        let Some(about) = about else {
            return Process::unknown(client);
        };
        Process {
            client,
            host: Some(about.host),
            pid: Some(about.pid),
            name: Some(about.name),
            started: clock::from_unix_ms(about.started_unix_ms),
        }
    }

    /// Describes this process, under the given name or that of its program.
    pub(crate) fn this(name: Option<String>) -> Self {
        let host = rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned();
        let program = || {
            let path = std::env::current_exe().ok()?;
            Some(path.file_name()?.to_string_lossy().into_owned())
        };
        SelfDescription {
            host: tame(&host, TEXT_MAX),
            pid: std::process::id(),
            name: tame(&name.or_else(program).unwrap_or_default(), TEXT_MAX),
            started_unix_ms: clock::wall_us() / 1000,
        }
    }

    pub(crate) fn encode(&self) -> String {
        format!(
            "{}\n{}\n{}\n{}",
            self.host, self.pid, self.name, self.started_unix_ms
        )
    }

    /// Decodes a record; `None` for text that no client writes. Lines that a later version adds are passed over.
    pub(crate) fn decode(text: &str) -> Option<Self> {
        let mut lines = text.split('\n');
        Some(SelfDescription {
            host: tame(lines.next()?, TEXT_MAX),
            pid: lines.next()?.parse().ok()?,
            name: tame(lines.next()?, TEXT_MAX),
            started_unix_ms: lines.next()?.parse().ok()?,
        })
    }
}

/// Writes the record of a client; an empty `about` deletes it. Runs `lua/client/announce.lua`.
#[derive(Debug)]
pub(crate) struct Announce<'a> {
    pub(crate) record: &'a str,
    pub(crate) about: &'a str,
    pub(crate) ttl: Ttl,
}

pub(crate) static ANNOUNCE: Script = script!("client/announce");

impl Operation for Announce<'_> {
    type Reply = ();

    fn script(&self) -> &'static Script {
        &ANNOUNCE
    }

    fn encode(&self, call: &mut Call) {
        call.key(self.record);
        call.arg(self.about).arg(self.ttl.as_ms());
    }

    fn decode(answer: &Answer) -> Result<(), Malformed> {
        match answer.tag() {
            "announced" | "gone" => Ok(()),
            _ => Err(Malformed),
        }
    }
}

/// Reads the record of a client. Runs `lua/client/who.lua`.
#[derive(Debug)]
pub(crate) struct Who<'a> {
    pub(crate) record: &'a str,
}

static WHO: Script = script!("client/who", reads_only);

impl Operation for Who<'_> {
    type Reply = Option<SelfDescription>;

    fn script(&self) -> &'static Script {
        &WHO
    }

    fn encode(&self, call: &mut Call) {
        call.key(self.record);
    }

    /// A record that no client wrote counts as none.
    fn decode(answer: &Answer) -> Result<Option<SelfDescription>, Malformed> {
        match answer.tag() {
            "known" => Ok(answer.text(0).ok().and_then(SelfDescription::decode)),
            "unknown" => Ok(None),
            _ => Err(Malformed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_decoded_as_it_was_encoded() {
        let this = SelfDescription::this(Some("nightly".into()));
        assert_eq!(SelfDescription::decode(&this.encode()), Some(this));
    }

    #[test]
    fn hostile_records_are_made_safe_or_refused() {
        let hostile = format!("host\u{1b}[31m\n7\n{}\n1", "x".repeat(10_000));
        let shown = SelfDescription::decode(&hostile).unwrap();
        assert_eq!(shown.host, "host\u{fffd}[31m");
        assert_eq!(shown.name.len(), TEXT_MAX);
        for bad in ["", "a\nb\nc\n1", "a\n1\nc"] {
            assert_eq!(SelfDescription::decode(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn lines_of_a_later_version_are_passed_over() {
        let this = SelfDescription::this(Some("nightly".into()));
        let later = format!("{}\nversion 9.0.0\nvia run", this.encode());
        assert_eq!(SelfDescription::decode(&later), Some(this));
    }

    #[cfg(feature = "embedded")]
    #[tokio::test]
    async fn a_closed_client_writes_no_record_unless_it_still_holds_a_lease() {
        let [idle, holding] = ["mem:", "mem:"].map(|url| crate::Client::open(url).unwrap());
        assert!(idle.engine().record_to_write().is_some());
        let lease = holding.mutex("job").acquire().await.unwrap();
        idle.mutex("job")
            .acquire()
            .await
            .unwrap()
            .release()
            .await
            .unwrap();
        idle.close().await;
        holding.close().await;
        assert!(idle.engine().record_to_write().is_none());
        assert!(holding.engine().record_to_write().is_some());
        lease.release().await.unwrap();
    }
}
