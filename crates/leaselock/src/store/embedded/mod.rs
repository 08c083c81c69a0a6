//! Locks in a folder of files, or in memory: the same scripts as on Redis, run here.

mod commands;
mod datagram;
mod doctor;
mod engine;
mod entry;
mod file_format;
#[cfg(target_os = "linux")]
mod fitness;
mod folder;
mod gc;
mod glob;
mod holds;
mod image;
mod io_error;
mod lockfile;
mod memory;
mod on_disk;
mod open_files;
mod opening;
mod packed;
mod receiver;
mod reply;
mod scan;
mod session;
#[cfg(target_os = "linux")]
mod session_watch;
mod step;
mod store;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod time;
mod whitelist;

pub(crate) use self::store::EmbeddedStore;
