//! The answer of a script: a tag and values.

/// A value that a script returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Nil,
    Int(i64),
    Bytes(Vec<u8>),
    Array(Vec<Value>),
}

/// An answer: a tag and its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    tag: String,
    /// All values, with the tag replaced by an empty one.
    rest: Vec<Value>,
}

/// An answer that no version of this script gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Malformed;

impl Value {
    fn bytes(&self) -> Result<&[u8], Malformed> {
        match self {
            Value::Bytes(bytes) => Ok(bytes),
            Value::Nil | Value::Int(_) | Value::Array(_) => Err(Malformed),
        }
    }

    pub(crate) fn text(&self) -> Result<&str, Malformed> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Malformed)
    }

    /// Reads text that a stranger wrote: what is no text in it is replaced.
    pub(crate) fn text_lossy(&self) -> Result<String, Malformed> {
        Ok(String::from_utf8_lossy(self.bytes()?).into_owned())
    }
}

impl Answer {
    pub(crate) fn from_value(value: Value) -> Result<Self, Malformed> {
        let Value::Array(mut items) = value else {
            return Err(Malformed);
        };
        let Some(Value::Bytes(tag)) = items.first_mut() else {
            return Err(Malformed);
        };
        let tag = String::from_utf8(std::mem::take(tag)).map_err(|_| Malformed)?;
        Ok(Answer { tag, rest: items })
    }

    pub(crate) fn tag(&self) -> &str {
        &self.tag
    }

    pub(crate) fn values(&self) -> &[Value] {
        &self.rest[1..]
    }

    fn at(&self, index: usize) -> Result<&Value, Malformed> {
        self.rest.get(index + 1).ok_or(Malformed)
    }

    /// Reads a whole number that is not negative, sent as an integer or as digits.
    pub(crate) fn number(&self, index: usize) -> Result<u64, Malformed> {
        u64::try_from(self.signed(index)?).map_err(|_| Malformed)
    }

    /// Reads a number that fits into 32 bits.
    pub(crate) fn small(&self, index: usize) -> Result<u32, Malformed> {
        u32::try_from(self.number(index)?).map_err(|_| Malformed)
    }

    pub(crate) fn signed(&self, index: usize) -> Result<i64, Malformed> {
        match self.at(index)? {
            Value::Int(number) => Ok(*number),
            Value::Bytes(digits) => std::str::from_utf8(digits)
                .ok()
                .and_then(|d| d.parse().ok())
                .ok_or(Malformed),
            Value::Nil | Value::Array(_) => Err(Malformed),
        }
    }

    pub(crate) fn bytes(&self, index: usize) -> Result<&[u8], Malformed> {
        self.at(index)?.bytes()
    }

    pub(crate) fn text(&self, index: usize) -> Result<&str, Malformed> {
        self.at(index)?.text()
    }

    /// Reads [text that a stranger wrote](Value::text_lossy).
    pub(crate) fn text_lossy(&self, index: usize) -> Result<String, Malformed> {
        self.at(index)?.text_lossy()
    }

    pub(crate) fn array(&self, index: usize) -> Result<&[Value], Malformed> {
        match self.at(index)? {
            Value::Array(items) => Ok(items),
            Value::Nil | Value::Int(_) | Value::Bytes(_) => Err(Malformed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Value {
        Value::Bytes(text.as_bytes().to_vec())
    }

    #[test]
    fn an_answer_without_a_tag_is_malformed() {
        for bad in [
            Value::Nil,
            Value::Int(1),
            bytes("busy"),
            Value::Array(vec![]),
            Value::Array(vec![Value::Int(0)]),
        ] {
            assert_eq!(Answer::from_value(bad), Err(Malformed));
        }
    }

    #[test]
    fn numbers_come_as_integers_or_as_digits_and_nothing_else() {
        let answer = Value::Array(vec![
            bytes("t"),
            Value::Int(-1),
            bytes("1795224695691371"),
            bytes("1e15"),
            Value::Nil,
        ]);
        let answer = Answer::from_value(answer).unwrap();
        assert_eq!(answer.signed(0), Ok(-1));
        assert_eq!(answer.number(0), Err(Malformed));
        assert_eq!(answer.number(1), Ok(1_795_224_695_691_371));
        for missing in [2, 3, 9] {
            assert_eq!(answer.number(missing), Err(Malformed));
        }
    }
}
