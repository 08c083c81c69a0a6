//! The token of an acquisition: the proof of ownership.

use std::hash::Hasher;
use std::sync::Mutex;

use sha2::{Digest, Sha256};

use super::clock::Moment;
use super::hex::hex;
use super::shorthand::{debug_as, hold};

const RANDOM_BYTES: usize = 16;
const CLIENT_BYTES: usize = 6;
/// How many tokens get their random bytes from one system call.
const STOCK: usize = 64;
/// 22 characters of random, a sign, 8 characters of client.
const LENGTH: usize = 31;
const SECRET: usize = 22;
/// The sign in the token of a lease with a fencing token, and in that of one without.
const FENCED: u8 = b'.';
const UNFENCED: u8 = b'~';
/// The same of a lease that was broken: no renewal finds it (`lua/inline/broken.lua`).
const FENCED_BROKEN: u8 = b'!';
const UNFENCED_BROKEN: u8 = b'?';

/// The short id of a client: 48 random bits, 8 characters. Not a secret.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ClientId(String);

impl ClientId {
    pub(crate) fn random() -> Result<Self, getrandom::Error> {
        Ok(ClientId(base64url(&random::<CLIENT_BYTES>()?)))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// The secret of an acquisition: 128 random bits from the operating system and the client's id.
///
/// New for every acquisition. Any bearer can release the lease, so it never appears in `Debug`, logs or errors.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Token([u8; LENGTH]);

impl Token {
    /// Creates a token.
    ///
    /// A token says whether its lease has fencing, which costs nothing and lets `inspect` tell.
    pub(crate) fn random(client: &ClientId, fencing: bool) -> Result<Self, getrandom::Error> {
        Ok(Self::from_random(&random()?, client, fencing))
    }

    fn from_random(random: &[u8; RANDOM_BYTES], client: &ClientId, fencing: bool) -> Self {
        let mut text = [0; LENGTH];
        let (secret, rest) = text.split_at_mut(SECRET);
        write_base64url(random, secret);
        rest[0] = if fencing { FENCED } else { UNFENCED };
        rest[1..].copy_from_slice(client.0.as_bytes());
        Token(text)
    }

    /// Parses one of our tokens, or returns `None`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        client_of(text.as_bytes())?;
        let token = text.as_bytes().try_into().ok().map(Token);
        token.filter(|_| !is_broken(text.as_bytes()))
    }

    /// Returns the token that is in the place of this one after a break.
    pub(crate) fn broken(&self) -> Token {
        let mut text = self.0;
        text[SECRET] = match self.is_fenced() {
            true => FENCED_BROKEN,
            false => UNFENCED_BROKEN,
        };
        Token(text)
    }

    /// Returns true if a lease of this token has a fencing token.
    pub(crate) fn is_fenced(&self) -> bool {
        self.0[SECRET] == FENCED
    }

    pub(crate) fn secret(&self) -> &str {
        // The bytes are letters, digits and four signs.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns 16 hex digits of a hash: they tell this acquisition from all others, and release nothing.
    pub(crate) fn owner_id(&self) -> String {
        hex(&Sha256::digest(self.0)[..8])
    }

    /// Returns eight hex digits of a hash: enough to correlate, useless to release.
    pub(crate) fn digest(&self) -> String {
        digest(&self.0)
    }
}

/// A hasher for tables of tokens.
///
/// The random part of a token is as good as a hash, and no other program chooses it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ByRandom(u64);

impl Hasher for ByRandom {
    fn write(&mut self, bytes: &[u8]) {
        if let Some(random) = bytes.first_chunk() {
            // The bits of a letter are not even, so all of them enter each.
            let mixed = u64::from_le_bytes(*random).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            self.0 = mixed ^ (mixed >> 32);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Random bytes for the next tokens, fetched for many at once.
///
/// One such call costs as much as all else that a client does for an acquisition. Bytes that were used are wiped. A forked
/// process has a copy of the others, and would hold by the tokens of its parent: each token has the nanosecond of its draw
/// mixed in. The id of the process would cost a system call as well.
#[derive(Default)]
pub(crate) struct Stock(Mutex<Bytes>);

struct Bytes {
    bytes: [u8; RANDOM_BYTES * STOCK],
    /// Tokens left.
    left: usize,
}

impl Default for Bytes {
    fn default() -> Self {
        Bytes {
            bytes: [0; RANDOM_BYTES * STOCK],
            left: 0,
        }
    }
}

impl Stock {
    pub(crate) fn token(
        &self,
        client: &ClientId,
        fencing: bool,
        now: Moment,
    ) -> Result<Token, getrandom::Error> {
        let mut stock = hold(&self.0);
        if stock.left == 0 {
            getrandom::fill(&mut stock.bytes)?;
            stock.left = STOCK;
        }
        stock.left -= 1;
        let start = stock.left * RANDOM_BYTES;
        let mut random = [0; RANDOM_BYTES];
        random.swap_with_slice(&mut stock.bytes[start..start + RANDOM_BYTES]);
        let drawn_at = now.as_nanos().to_ne_bytes();
        for (byte, of_time) in random.iter_mut().zip(drawn_at) {
            *byte ^= of_time;
        }
        Ok(Token::from_random(&random, client, fencing))
    }
}

debug_as!(Stock, _it => "Stock");

debug_as!(Token, it => "Token(#{})", it.digest());

/// Returns the client inside one of our tokens; `None` for the value of another library.
pub(crate) fn client_of(value: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(value)
        .ok()
        .filter(|text| text.len() == LENGTH)?;
    let (secret, client) = text.split_at_checked(SECRET)?;
    let client = client.strip_prefix(['.', '~', '!', '?'])?;
    (is_plain(secret) && is_plain(client)).then_some(client)
}

/// Returns true if the text has only the characters of our secrets and of the ids of clients.
pub(crate) fn is_plain(part: &str) -> bool {
    let is_ours = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    part.bytes().all(is_ours)
}

/// Returns true if it is one of our tokens, of a lease that was broken.
pub(crate) fn is_broken(value: &[u8]) -> bool {
    let sign = value.get(SECRET);
    client_of(value).is_some() && matches!(sign, Some(&(FENCED_BROKEN | UNFENCED_BROKEN)))
}

/// Returns true if the sign of this token, which is ours, says that its lease has a fencing token.
pub(crate) fn is_fenced(value: &[u8]) -> bool {
    matches!(value.get(SECRET), Some(&(FENCED | FENCED_BROKEN)))
}

/// Returns the client of the token that a text begins with, and the text behind that token.
pub(crate) fn leading(text: &[u8]) -> Option<(&str, &[u8])> {
    let (token, rest) = text.split_at_checked(LENGTH)?;
    Some((client_of(token)?, rest))
}

/// Returns eight hex digits of SHA-256.
pub(crate) fn digest(secret: &[u8]) -> String {
    hex(&Sha256::digest(secret)[..4])
}

fn random<const N: usize>() -> Result<[u8; N], getrandom::Error> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}

/// Encodes as unpadded base64 with `-` and `_` (RFC 4648, section 5).
pub(crate) fn base64url(bytes: &[u8]) -> String {
    let digits = bytes.len() / 3 * 4 + [0, 2, 3][bytes.len() % 3];
    let mut text = vec![0; digits];
    write_base64url(bytes, &mut text);
    text.into_iter().map(char::from).collect()
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Encodes into a buffer of the right length.
fn write_base64url(bytes: &[u8], text: &mut [u8]) {
    for (chunk, place) in bytes.chunks(3).zip(text.chunks_mut(4)) {
        let group = chunk
            .iter()
            .fold(0u32, |all, byte| all << 8 | u32::from(*byte))
            << (8 * (3 - chunk.len()));
        for (digit, place) in place.iter_mut().enumerate() {
            *place = DIGITS[(group >> (18 - 6 * digit) & 63) as usize];
        }
    }
}

/// Decodes; `None` for any text that `base64url` does not write.
pub(crate) fn from_base64url(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for chunk in text.as_bytes().chunks(4) {
        let mut group = 0u32;
        for digit in chunk {
            let value = DIGITS.iter().position(|known| known == digit)?;
            group = group << 6 | u32::try_from(value).ok()?;
        }
        group <<= 6 * (4 - chunk.len());
        bytes.extend_from_slice(&group.to_be_bytes()[1..chunk.len().max(1)]);
    }
    (base64url(&bytes) == text).then_some(bytes)
}

/// Fencing tokens as the replies of a store have them.
pub(crate) mod fence {
    use leaselock_fence::Fence;

    /// Returns the token of an id of the key that mints them, `ms-count`; `None` for an id that no grant writes.
    pub(crate) fn of_id(id: &str) -> Option<Fence> {
        let (ms, count) = id.split_once('-')?;
        let (ms, count): (u64, u64) = (ms.parse().ok()?, count.parse().ok()?);
        let number = ms.checked_mul(1000)?.checked_add(count)?;
        Some(Fence::new(number)).filter(|fence| count < 1000 && *fence <= Fence::MAX)
    }

    /// Returns the token that a script replies: `0` stands for a lease without fencing.
    pub(crate) fn of_reply(number: u64) -> Option<Fence> {
        (number > 0).then_some(Fence::new(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_new_every_time_and_name_their_client() {
        let client = ClientId::random().unwrap();
        let (one, two) = (
            Token::random(&client, true).unwrap(),
            Token::random(&client, false).unwrap(),
        );
        assert_ne!(one, two);
        for token in [&one, &two] {
            assert_eq!(token.secret().len(), LENGTH);
            assert_eq!(client_of(token.secret().as_bytes()), Some(client.as_str()));
            assert_eq!(Token::parse(token.secret()).as_ref(), Some(token));
        }
    }

    #[test]
    fn a_forked_process_draws_no_token_that_its_parent_draws() {
        let (client, parent) = (ClientId::random().unwrap(), Stock::default());
        let [first, next] = [1, 2].map(Moment::from_nanos);
        parent.token(&client, true, first).unwrap();
        let child = Stock(Mutex::new(Bytes { ..*hold(&parent.0) }));
        let drawn = [(parent, first), (child, next)]
            .map(|(stock, now)| stock.token(&client, true, now).unwrap());
        assert_ne!(drawn[0], drawn[1]);
    }

    #[test]
    fn tokens_of_one_client_are_spread_over_a_table() {
        use std::hash::{BuildHasher as _, BuildHasherDefault};
        let client = ClientId::random().unwrap();
        let hasher = BuildHasherDefault::<ByRandom>::default();
        let hash = |_| hasher.hash_one(Token::random(&client, true).unwrap());
        let hashes: Vec<u64> = (0..1024).map(hash).collect();
        for shift in [0, 32, 54] {
            let places = hashes.iter().map(|hash| hash >> shift & 1023);
            let taken = places.collect::<std::collections::HashSet<_>>().len();
            assert!(taken > 500, "{taken} of about 647 at bit {shift}");
        }
    }

    #[test]
    fn debug_shows_a_digest_and_never_the_secret() {
        let token = Token::random(&ClientId::random().unwrap(), true).unwrap();
        let shown = format!("{token:?}");
        assert!(!shown.contains(&token.secret()[..8]), "{shown}");
    }

    #[test]
    fn values_of_other_libraries_are_not_taken_for_ours() {
        for foreign in [
            "",
            "x",
            "f47ac10b-58cc-4372-a567-0e02b2c3d479",
            "0123456789012345678901x12345678",
        ] {
            assert_eq!(client_of(foreign.as_bytes()), None, "{foreign}");
        }
        assert_eq!(client_of(&[0xff; 31]), None);
    }

    #[test]
    fn a_token_in_front_of_a_text_is_found_and_none_in_its_middle() {
        for _ in 0..100 {
            let client = ClientId::random().unwrap();
            let token = Token::random(&client, true).unwrap();
            for rest in ["", "u", "12", " channel"] {
                let text = format!("{}{rest}", token.secret());
                assert_eq!(
                    leading(text.as_bytes()),
                    Some((client.as_str(), rest.as_bytes()))
                );
                let entry = format!("1795224695691371{text}1795224695691371 0 5000 1 channel");
                assert_eq!(leading(entry.as_bytes()), None, "{entry}");
            }
        }
        assert_eq!(leading(b"u"), None);
    }

    #[test]
    fn base64url_is_reversible_and_refuses_other_text() {
        for length in 0..40u8 {
            let bytes: Vec<u8> = (0..length).map(|i| i.wrapping_mul(71)).collect();
            assert_eq!(from_base64url(&base64url(&bytes)), Some(bytes));
        }
        for bad in ["A", "=", "AB==", "A B", "AAAB="] {
            assert_eq!(from_base64url(bad), None, "{bad}");
        }
    }
}
