//! An object store with conditional writes, by the recipe of docs/fencing-resources.md: claim the object, then write it.

use std::collections::HashMap;

use leaselock::{Name, Sequencer};
use leaselock_fence::{Admission, FenceChecker};

use super::{Late, NAME, Resource, refuses_whoever_is_late, rounds, shown};

/// One object; its bytes have the sequencer of the holder that wrote it.
#[derive(Debug, Clone, Default)]
struct Object {
    value: u64,
    sequencer: Option<String>,
}

/// As that of S3: of the same bytes it is the same, however often they are written.
type Etag = (u64, Option<String>);

/// The recipe, and whether a holder claims the object before it works with what it has read.
struct InStore {
    object: Object,
    claims: bool,
    /// False: the sequencer is in the metadata, of which the ETag says nothing.
    is_in_bytes: bool,
    /// The ETag of what each holder has claimed or written last.
    known: HashMap<Sequencer, Etag>,
}

impl InStore {
    fn new(claims: bool, is_in_bytes: bool) -> Self {
        InStore {
            object: Object::default(),
            claims,
            is_in_bytes,
            known: HashMap::new(),
        }
    }

    fn etag(&self) -> Etag {
        let sequencer = self.object.sequencer.clone();
        (self.object.value, sequencer.filter(|_| self.is_in_bytes))
    }

    /// `PUT` with `If-Match`: refused with 412 when the object has changed.
    fn put(&mut self, if_match: &Etag, value: u64, sequencer: &Sequencer) -> Result<Etag, Late> {
        if self.etag() != *if_match {
            return Err(Late);
        }
        let sequencer = Some(sequencer.to_string());
        self.object = Object { value, sequencer };
        Ok(self.etag())
    }
}

impl Resource for InStore {
    fn read(&mut self, shown: &Sequencer) -> Result<u64, Late> {
        let (etag, Object { value, sequencer }) = (self.etag(), self.object.clone()); // GET
        let mut checker = match sequencer {
            Some(text) => FenceChecker::from(text.parse::<Sequencer>().unwrap()),
            None => FenceChecker::new(Name::new(NAME).unwrap()),
        };
        let etag = match checker.admit(shown).map_err(|_| Late)? {
            Admission::Raised if self.claims => self.put(&etag, value, shown)?,
            _ => etag,
        };
        self.known.insert(shown.clone(), etag);
        Ok(value)
    }

    fn write(&mut self, shown: &Sequencer, value: u64) -> Result<(), Late> {
        if !self.known.contains_key(shown) {
            self.read(shown)?; // claims the object
        }
        let etag = self.put(&self.known[shown].clone(), value, shown)?;
        self.known.insert(shown.clone(), etag);
        Ok(())
    }
}

#[tokio::test]
async fn an_object_that_each_holder_claims_first_refuses_whoever_is_late() {
    refuses_whoever_is_late(&mut InStore::new(true, true), rounds(1000, 10_000)).await;
}

#[test]
fn without_the_claim_a_late_write_refuses_the_holder_of_the_time() {
    let mut store = InStore::new(false, true);
    let (late, now) = (shown(33, "a"), shown(34, "b"));
    store.read(&late).unwrap();
    store.read(&now).unwrap();
    assert_eq!(store.write(&late, 1000), Ok(()));
    assert_eq!(store.write(&now, 1), Err(Late));
}

#[test]
fn a_sequencer_beside_the_bytes_claims_nothing_where_the_etag_is_made_of_the_bytes() {
    let (late, now) = (shown(33, "a"), shown(34, "b"));
    for (is_in_bytes, outcome) in [(false, Ok(())), (true, Err(Late))] {
        let mut store = InStore::new(true, is_in_bytes);
        store.read(&late).unwrap();
        store.read(&now).unwrap();
        assert_eq!(store.write(&late, 1000), outcome);
    }
}
