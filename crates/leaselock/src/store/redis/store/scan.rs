//! Listing keys, page by page.

use redis::{Cmd, Value};

use crate::base::{ErrorKind, Moment, Result, StoreError, refusal};
use crate::script::Listed;
use crate::store::Store;
use crate::store::redis::cluster::Cluster;
use crate::store::redis::link::RedisStore;
use crate::store::redis::{answer, error_map};

const SCAN_COUNT: u32 = 100;

impl RedisStore {
    /// Scans one primary after the other; the upper bits of the cursor hold its index.
    pub(super) async fn scan_nodes(
        &self,
        cluster: &Cluster,
        cursor: u64,
        pattern: &str,
        until: Moment,
    ) -> Result<(u64, Vec<Listed>)> {
        const CURSOR_BITS: u32 = 54;
        let (place, within_node) = (cursor >> CURSOR_BITS, cursor & ((1 << CURSOR_BITS) - 1));
        let index = usize::try_from(place).unwrap_or(usize::MAX);
        let scan = Self::scan_command(within_node, pattern);
        let Some(answer) = cluster.ask_primary(index, &scan, until).await? else {
            return Ok((0, Vec::new()));
        };
        let (next, keys) = self.page(&answer)?;
        if next >> CURSOR_BITS > 0 {
            let message = "a node counts its keys in a way that is not understood";
            return Err(StoreError::refused(ErrorKind::Malformed, message));
        }
        let place = if next == 0 { place + 1 } else { place };
        Ok((place << CURSOR_BITS | next, keys))
    }

    pub(super) fn page(&self, answer: &Value) -> Result<(u64, Vec<Listed>)> {
        if let Value::ServerError(reply) = answer {
            return Err(self.explain(&error_map::line(reply)));
        }
        let odd = |_| refusal!(Malformed: "unexpected reply from {} to SCAN", self.describe());
        answer::page(answer).map_err(odd)
    }

    /// Builds the command for one page of keys that may be locks, which are strings or sorted sets; `TYPE` takes only
    /// one type, and costs the server more.
    pub(super) fn scan_command(cursor: u64, pattern: &str) -> Cmd {
        let mut scan = redis::cmd("SCAN");
        scan.arg(cursor).arg("MATCH").arg(pattern);
        scan.arg("COUNT").arg(SCAN_COUNT);
        scan
    }
}
