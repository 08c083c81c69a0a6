//! Replies of commands, and the conversion of values between Lua and commands, by the rules of Redis.

use mlua::{BorrowedBytes, Lua, Value as LuaValue};

use crate::base::{ErrorKind, Result, StoreError, refusal};
use crate::script::{Value, damage};

/// The reply of one command.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Reply {
    Nil,
    Int(i64),
    Status(&'static str),
    Bytes(Vec<u8>),
    Array(Vec<Reply>),
}

impl Reply {
    pub(super) fn count(number: usize) -> Self {
        Reply::Int(i64::try_from(number).unwrap_or(i64::MAX))
    }

    pub(super) fn flag(flag: bool) -> Self {
        Reply::Int(i64::from(flag))
    }

    /// Whole numbers come out in full up to 17 digits, from every server; newer ones round fractions in fewer digits.
    pub(super) fn score(score: f64) -> Self {
        Reply::Bytes(general(score).into_bytes())
    }

    pub(super) fn or_nil(bytes: Option<&[u8]>) -> Self {
        bytes.map_or(Reply::Nil, |bytes| Reply::Bytes(bytes.to_vec()))
    }
}

/// Creates the error of a script, or of a command in it, that no script of ours should meet.
pub(super) fn internal(message: impl Into<String>) -> StoreError {
    StoreError::refused(ErrorKind::Internal, message)
}

/// Creates the error of a command on a key of another type.
pub(super) fn wrong_type() -> StoreError {
    refusal!(WrongType: "WRONGTYPE Operation against a key holding the wrong kind of value")
}

/// Converts a command's reply for the script: nil becomes false, a status becomes a table with `ok`.
pub(super) fn to_lua(lua: &Lua, reply: Reply) -> mlua::Result<LuaValue> {
    Ok(match reply {
        Reply::Nil => LuaValue::Boolean(false),
        Reply::Int(number) => LuaValue::Integer(number),
        Reply::Bytes(bytes) => LuaValue::String(lua.create_string(bytes)?),
        Reply::Status(text) => {
            let table = lua.create_table_with_capacity(0, 1)?;
            table.raw_set("ok", text)?;
            LuaValue::Table(table)
        }
        Reply::Array(items) => {
            let items: mlua::Result<Vec<LuaValue>> =
                items.into_iter().map(|item| to_lua(lua, item)).collect();
            LuaValue::Table(lua.create_sequence_from(items?)?)
        }
    })
}

/// Converts a script's result. Numbers lose their fraction, tables end at the first nil, false is nil.
pub(super) fn from_lua(value: &LuaValue) -> Result<Value> {
    match value {
        LuaValue::Boolean(true) => Ok(Value::Int(1)),
        LuaValue::Integer(number) => Ok(Value::Int(*number)),
        LuaValue::Number(number) => Ok(Value::Int(truncated(*number))),
        LuaValue::String(text) => Ok(Value::Bytes(text.as_bytes().to_vec())),
        LuaValue::Table(table) => from_table(table),
        _ => Ok(Value::Nil),
    }
}

fn from_table(table: &mlua::Table) -> Result<Value> {
    let broken = |error: mlua::Error| internal(error.to_string());
    let field = |name: &str| table.raw_get::<LuaValue>(name).map_err(broken);
    let length = table.raw_len();
    if length == 0 {
        if let LuaValue::String(message) = field("err")? {
            // A script raises it itself, or passes it on from a command.
            let line = message.to_string_lossy();
            return Err(damage::from_line(&line).unwrap_or_else(|| internal(line)));
        }
        if let LuaValue::String(status) = field("ok")? {
            return Ok(Value::Bytes(status.as_bytes().to_vec()));
        }
    }
    let mut items = Vec::with_capacity(length);
    for item in table.sequence_values::<LuaValue>() {
        items.push(from_lua(&item.map_err(broken)?)?);
    }
    Ok(Value::Array(items))
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "Redis drops the fraction too; the cast saturates"
)]
fn truncated(number: f64) -> i64 {
    number as i64
}

/// A word of a `redis.call`: text as it is, and a number as C's `%.17g` prints it.
pub(super) enum Word {
    Text(BorrowedBytes),
    Number(String),
}

impl Word {
    pub(super) fn of(value: &LuaValue) -> Result<Self> {
        Ok(match value {
            LuaValue::String(text) => Word::Text(text.as_bytes()),
            LuaValue::Integer(number) if number.unsigned_abs() < 100_000_000_000_000_000 => {
                Word::Number(number.to_string())
            }
            #[expect(
                clippy::cast_precision_loss,
                reason = "every number of Lua is a double to begin with"
            )]
            LuaValue::Integer(number) => Word::Number(general(*number as f64)),
            LuaValue::Number(number) => Word::Number(general(*number)),
            _ => {
                let refused = "ERR Lua redis() command arguments must be strings or integers";
                return Err(internal(refused));
            }
        })
    }

    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Word::Text(text) => text,
            Word::Number(digits) => digits.as_bytes(),
        }
    }
}

/// Formats as C's `%.17g`: 17 digits, trailing zeros dropped, an exponent only outside of 1e-4 to 1e17.
fn general(number: f64) -> String {
    const DIGITS: i32 = 17;
    if !number.is_finite() {
        return number.to_string().to_lowercase();
    }
    let scientific = format!("{number:.16e}");
    let Some((digits, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if (-4..DIGITS).contains(&exponent) {
        let places = usize::try_from(DIGITS - 1 - exponent).unwrap_or(0);
        return trimmed(&format!("{number:.places$}"));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trimmed(digits), exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_print_as_c_prints_them() {
        for (number, text) in [
            (0.0, "0"),
            (-7.0, "-7"),
            (0.1, "0.10000000000000001"),
            (1.5, "1.5"),
            (1_795_224_695_691_371.0, "1795224695691371"),
            (99_999_999_999_999_984.0, "99999999999999984"),
            (1e17, "1e+17"),
            (1e-5, "1.0000000000000001e-05"),
            (1e300, "1.0000000000000001e+300"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(general(number), text);
        }
    }

    #[test]
    fn a_commands_answer_reaches_the_script_as_redis_would_give_it() {
        let lua = Lua::new();
        let seen = |reply, test: &str| {
            lua.globals()
                .set("x", to_lua(&lua, reply).unwrap())
                .unwrap();
            assert!(lua.load(test).eval::<bool>().unwrap(), "{test}");
        };
        seen(Reply::Nil, "x == false");
        seen(Reply::Int(-3), "x == -3");
        seen(Reply::Status("OK"), "type(x) == 'table' and x.ok == 'OK'");
        seen(Reply::Bytes(vec![0, 255]), "x == '\\0\\255'");
        seen(
            Reply::Array(vec![Reply::Nil, Reply::Int(1)]),
            "#x == 2 and x[1] == false and x[2] == 1",
        );
    }

    #[test]
    fn a_scripts_answer_leaves_as_redis_would_give_it() {
        let lua = Lua::new();
        let left = |script: &str| from_lua(&lua.load(script).eval().unwrap());
        assert_eq!(left("return 3.99"), Ok(Value::Int(3)));
        assert_eq!(left("return -3.99"), Ok(Value::Int(-3)));
        assert_eq!(left("return true"), Ok(Value::Int(1)));
        for nil in ["return false", "return nil", "return print"] {
            assert_eq!(left(nil), Ok(Value::Nil), "{nil}");
        }
        assert_eq!(
            left("return {ok = 'fine'}"),
            Ok(Value::Bytes(b"fine".to_vec()))
        );
        assert_eq!(left("return {1, {'a'}, nil, 4}"), {
            Ok(Value::Array(vec![
                Value::Int(1),
                Value::Array(vec![Value::Bytes(b"a".to_vec())]),
            ]))
        });
        assert_eq!(
            left("return {err = 'ERR no'}").unwrap_err().to_string(),
            "ERR no"
        );
    }
}
