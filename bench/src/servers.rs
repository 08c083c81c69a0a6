//! Servers of the benchmark's own, and what they count.

use std::collections::BTreeMap;
use std::time::Duration;

use testkit::resp::Connection;
use testkit::{Fault, Proxy, Server, Value, Way};

use crate::contender::{Inside, text};

pub struct Servers {
    servers: Vec<(Server, Connection)>,
    /// In front of the first one.
    distance: Option<Proxy>,
}

/// What the servers have done so far, all together.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    calls: BTreeMap<String, u64>,
    processor_us: f64,
}

impl Servers {
    /// A server on loopback that keeps nothing on disk.
    pub fn start() -> Result<Servers, String> {
        Servers::of(1)
    }

    /// Several of them.
    pub fn of(count: usize) -> Result<Servers, String> {
        let one = |_| {
            let server = Server::start();
            let connection = server.connect().map_err(text)?;
            Ok((server, connection))
        };
        let servers = (0..count).map(one).collect::<Result<_, String>>()?;
        Ok(Servers {
            servers,
            distance: None,
        })
    }

    /// One whose replies arrive so much later, in a thread of this process.
    pub fn at_distance(round_trip: Duration) -> Result<Servers, String> {
        let mut servers = Servers::start()?;
        let proxy = Proxy::to(servers.servers[0].0.port());
        proxy.set(Way::ToClient, Fault::Delay(round_trip));
        servers.distance = Some(proxy);
        Ok(servers)
    }

    /// Where contenders find them.
    pub fn urls(&self) -> Vec<String> {
        if let Some(proxy) = &self.distance {
            return vec![proxy.url()];
        }
        self.servers
            .iter()
            .map(|(server, _)| server.url())
            .collect()
    }

    /// As in `Redis 7.0.15`.
    pub fn version(&mut self) -> Result<String, String> {
        let info = info(&mut self.servers[0].1, "server")?;
        let field = |name: &str| {
            info.lines()
                .find_map(|line| line.strip_prefix(name))
                .map(str::trim_end)
        };
        Ok(match (field("valkey_version:"), field("redis_version:")) {
            (Some(version), _) => format!("Valkey {version}"),
            (None, version) => format!("Redis {}", version.unwrap_or("of unknown version")),
        })
    }

    /// Whether the first server knows this command.
    pub fn has_command(&mut self, name: &str) -> Result<bool, String> {
        let told = self.servers[0].1.call(&["COMMAND", "INFO", name]);
        let told = told.map_err(text)?;
        Ok(matches!(told, Value::List(about) if matches!(about[..], [Value::List(_)])))
    }

    pub fn counts(&mut self) -> Result<Counts, String> {
        let mut counts = Counts::default();
        for (_, connection) in &mut self.servers {
            let stats = info(connection, "commandstats")?;
            for (command, calls) in stats.lines().filter_map(call_count) {
                *counts.calls.entry(command).or_default() += calls;
            }
            let cpu = info(connection, "cpu")?;
            let part = |name: &str| -> f64 {
                let value = cpu.lines().find_map(|line| line.strip_prefix(name));
                value
                    .and_then(|value| value.trim().parse().ok())
                    .unwrap_or(0.0)
            };
            counts.processor_us += (part("used_cpu_sys:") + part("used_cpu_user:")) * 1e6;
        }
        Ok(counts)
    }

    /// Everything that reaches the first server from now on, one line a command.
    pub fn monitor(&self) -> Result<Connection, String> {
        let mut connection = self.servers[0].0.connect().map_err(text)?;
        connection.call(&["MONITOR"]).map_err(text)?;
        Ok(connection)
    }

    /// Forgets all keys, so that no case pays for an earlier one.
    pub fn empty(&mut self) -> Result<(), String> {
        for (_, connection) in &mut self.servers {
            connection.call(&["FLUSHALL"]).map_err(text)?;
        }
        Ok(())
    }
}

fn info(connection: &mut Connection, section: &str) -> Result<String, String> {
    let answer = connection.call(&["INFO", section]).map_err(text)?;
    answer
        .text()
        .map(str::to_owned)
        .ok_or_else(|| "INFO gave no text".to_owned())
}

impl Counts {
    /// Commands that clients sent since `before`, without those that scripts called and our own.
    pub fn sent_since(&self, before: &Counts, inside: Inside) -> u64 {
        let sent = self
            .calls
            .iter()
            .filter(|(command, _)| is_sent(command, inside));
        let sent: u64 = sent
            .map(|(command, calls)| calls - before.calls_of(command))
            .sum();
        match inside {
            // Each check of the queue in the script counts like one that was sent.
            Inside::Release => sent - self.calls_since(before, "evalsha"),
            _ => sent,
        }
    }

    /// Calls of one command since `before`, those in scripts too.
    pub fn calls_since(&self, before: &Counts, command: &str) -> u64 {
        self.calls_of(command) - before.calls_of(command)
    }

    /// Processor time of the server since `before`, in microseconds.
    pub fn processor_us_since(&self, before: &Counts) -> f64 {
        self.processor_us - before.processor_us
    }

    fn calls_of(&self, command: &str) -> u64 {
        self.calls.get(command).copied().unwrap_or(0)
    }
}

/// As in `cmdstat_set:calls=12,usec=…`.
fn call_count(line: &str) -> Option<(String, u64)> {
    let (command, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
    let calls = rest.split(',').next()?.parse().ok()?;
    Some((command.to_owned(), calls))
}

fn is_sent(command: &str, inside: Inside) -> bool {
    const NEVER_INSIDE: [&str; 12] = [
        "eval",
        "fcall",
        "script",
        "subscribe",
        "ssubscribe",
        "unsubscribe",
        "sunsubscribe",
        "psubscribe",
        "hello",
        "client",
        "ping",
        "auth",
    ];
    match inside {
        Inside::Nothing => command != "info",
        Inside::AllBut(sent) if command == sent => true,
        Inside::AllButScripts | Inside::AllBut(_) => {
            NEVER_INSIDE.iter().any(|start| command.starts_with(start))
        }
        Inside::GetAndDelete | Inside::Release => !["get", "del", "info"].contains(&command),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_inside_scripts_are_not_counted_as_sent() {
        let calls = [
            ("evalsha", 5),
            ("set", 9),
            ("get", 5),
            ("info", 3),
            ("client|setinfo", 2),
        ];
        let after = Counts {
            calls: calls.map(|(name, calls)| (name.to_owned(), calls)).into(),
            processor_us: 0.0,
        };
        assert_eq!(
            after.sent_since(&Counts::default(), Inside::AllButScripts),
            7
        );
        assert_eq!(
            after.sent_since(&Counts::default(), Inside::GetAndDelete),
            16
        );
        assert_eq!(
            call_count("cmdstat_set:calls=12,usec=1"),
            Some(("set".to_owned(), 12))
        );
        assert_eq!(call_count("# Commandstats"), None);
    }
}
