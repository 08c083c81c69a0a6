//! An object store with conditional writes, by the recipe of docs/fencing-resources.md: claim the object, then write it.

use std::collections::HashMap;

use leaselock::{Name, Sequencer};
use leaselock_fence::{Admission, FenceChecker};

use super::{Late, NAME, Resource, refuses_whoever_is_late, rounds, shown};

/// One object with its ETag; the metadata has the sequencer of the holder that wrote it.
#[derive(Debug, Clone, Default)]
struct Object {
    etag: u64,
    value: u64,
    sequencer: Option<String>,
}

impl Object {
    /// `PUT` with `If-Match`: refused with 412 when the object has changed.
    fn put(&mut self, if_match: u64, value: u64, sequencer: &Sequencer) -> Result<u64, Late> {
        if self.etag != if_match {
            return Err(Late);
        }
        let sequencer = Some(sequencer.to_string());
        *self = Object {
            etag: if_match + 1,
            value,
            sequencer,
        };
        Ok(self.etag)
    }
}

/// The recipe, and whether a holder claims the object before it works with what it has read.
struct InStore {
    object: Object,
    claims: bool,
    /// The ETag of what each holder has claimed or written last.
    known: HashMap<Sequencer, u64>,
}

impl InStore {
    fn new(claims: bool) -> Self {
        let (object, known) = (Object::default(), HashMap::new());
        InStore {
            object,
            claims,
            known,
        }
    }
}

impl Resource for InStore {
    fn read(&mut self, shown: &Sequencer) -> Result<u64, Late> {
        let Object {
            etag,
            value,
            sequencer,
        } = self.object.clone(); // GET
        let mut checker = match sequencer {
            Some(text) => FenceChecker::from(text.parse::<Sequencer>().unwrap()),
            None => FenceChecker::new(Name::new(NAME).unwrap()),
        };
        let etag = match checker.admit(shown).map_err(|_| Late)? {
            Admission::Raised if self.claims => self.object.put(etag, value, shown)?,
            _ => etag,
        };
        self.known.insert(shown.clone(), etag);
        Ok(value)
    }

    fn write(&mut self, shown: &Sequencer, value: u64) -> Result<(), Late> {
        if !self.known.contains_key(shown) {
            self.read(shown)?; // claims the object
        }
        let etag = self.object.put(self.known[shown], value, shown)?;
        self.known.insert(shown.clone(), etag);
        Ok(())
    }
}

#[tokio::test]
async fn an_object_that_each_holder_claims_first_refuses_whoever_is_late() {
    refuses_whoever_is_late(&mut InStore::new(true), rounds(1000, 10_000)).await;
}

#[test]
fn without_the_claim_a_late_write_refuses_the_holder_of_the_time() {
    let mut store = InStore::new(false);
    let (late, now) = (shown(33, "a"), shown(34, "b"));
    store.read(&late).unwrap();
    store.read(&now).unwrap();
    assert_eq!(store.write(&late, 1000), Ok(()));
    assert_eq!(store.write(&now, 1), Err(Late));
}
