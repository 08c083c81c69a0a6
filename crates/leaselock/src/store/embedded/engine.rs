//! The script engine: a few Lua machines, each with nothing but arithmetic, text, tables and `redis`.

use std::collections::HashMap;
use std::sync::Mutex;

use mlua::state::{GcIncParams, GcMode};
use mlua::{Function, Lua, LuaOptions, MultiValue, StdLib, Table, Value as LuaValue};

use super::commands;
use super::reply::{self, Reply, Word, internal};
use super::step::Step;
use crate::base::{ErrorKind, Result, StoreError, hold};
use crate::script::{Answer, Call, Script};

/// The globals for scripts besides `redis`. Any other differs between Redis versions, or reaches outside.
const ALLOWED: &[&str] = &[
    "string", "math", "table", "ipairs", "pairs", "tonumber", "tostring", "type", "unpack", "error",
];
/// Functions that would make a script give different results, or run bytecode, which can break out.
const FORBIDDEN: &[(&str, &str)] = &[
    ("string", "dump"),
    ("math", "random"),
    ("math", "randomseed"),
];
/// Machines kept for the next call; more exist only while more calls run at once.
const KEPT: usize = 8;

static IDLE: Mutex<Vec<Machine>> = Mutex::new(Vec::new());

/// The state behind `redis.call`, in the machine while a script runs there.
struct Running {
    step: Step,
    /// The error of the first `redis.call` that raised one.
    failure: Option<StoreError>,
}

struct Machine {
    lua: Lua,
    /// Compiled scripts by the address of their text.
    compiled: HashMap<usize, Function>,
}

/// Runs a call on a step. An error discards the step: unlike on Redis, nothing of a failed script remains.
pub(super) fn execute(call: &Call, mut step: Step) -> Result<(Answer, Step)> {
    let shortcut = call.script.shortcut;
    match shortcut.and_then(|shortcut| shortcut(&call.parameters, &mut step)) {
        Some(answer) => Ok((answer, step)),
        None => interpret(call, step),
    }
}

/// Runs the call in Lua, even a script with a shortcut.
pub(super) fn interpret(call: &Call, mut step: Step) -> Result<(Answer, Step)> {
    step.keys = call.parameters.keys().map(str::to_owned).collect();
    let broken = |error: mlua::Error| internal(format!("the script engine failed: {error}"));
    let idle = hold(&IDLE).pop();
    let mut machine = idle.map_or_else(Machine::new, Ok).map_err(broken)?;
    let outcome = machine.run(call, step);
    let mut idle = hold(&IDLE);
    if idle.len() < KEPT {
        idle.push(machine);
    }
    outcome
}

impl Machine {
    fn new() -> mlua::Result<Self> {
        let lua = Lua::new_with(
            StdLib::STRING | StdLib::MATH | StdLib::TABLE,
            LuaOptions::default(),
        )?;
        // A collection walks over all compiled scripts, so it runs less often; a call leaves a few kilobytes behind.
        lua.gc_set_mode(GcMode::Incremental(GcIncParams::default().pause(1000)));
        let globals = lua.globals();
        let names = globals
            .pairs::<String, LuaValue>()
            .map(|pair| pair.map(|(name, _)| name));
        for name in names.collect::<mlua::Result<Vec<_>>>()? {
            if !ALLOWED.contains(&name.as_str()) {
                globals.raw_set(name, LuaValue::Nil)?;
            }
        }
        for (library, function) in FORBIDDEN {
            globals
                .raw_get::<Table>(*library)?
                .raw_set(*function, LuaValue::Nil)?;
        }
        let redis = lua.create_table()?;
        redis.raw_set("call", caller(&lua, true)?)?;
        redis.raw_set("pcall", caller(&lua, false)?)?;
        globals.raw_set("redis", redis)?;
        seal(&lua, &globals)?;
        Ok(Machine {
            lua,
            compiled: HashMap::new(),
        })
    }

    fn run(&mut self, call: &Call, step: Step) -> Result<(Answer, Step)> {
        let failure = None;
        self.lua.set_app_data(Running { step, failure });
        let outcome = self.evaluate(call);
        let refuse = |failure: StoreError| match failure.kind() {
            ErrorKind::Corrupt => failure,
            kind => StoreError::refused(kind, format!("{}: {failure}", call.script.name)),
        };
        let running = self.lua.remove_app_data();
        let Running { step, failure } =
            running.ok_or_else(|| refuse(internal("it lost its place")))?;
        let raised = |error: mlua::Error| failure.unwrap_or_else(|| internal(error.to_string()));
        let value = outcome.map_err(|error| refuse(raised(error)))?;
        let value = reply::from_lua(&value).map_err(refuse)?;
        // Nothing is committed yet, so an answer without a tag is a refusal, and the outcome is not unknown.
        let answer = Answer::from_value(value).map_err(|_| refuse(internal("no tagged answer")))?;
        Ok((answer, step))
    }

    fn evaluate(&mut self, call: &Call) -> mlua::Result<LuaValue> {
        let keys = self.lua.create_sequence_from(call.parameters.keys())?;
        let args = call.parameters.arg_bytes();
        let args = args.map(|arg| self.lua.create_string(arg));
        let args = args.collect::<mlua::Result<Vec<_>>>()?;
        let args = self.lua.create_sequence_from(args)?;
        self.compile(call.script)?.call((keys, args))
    }

    fn compile(&mut self, script: &'static Script) -> mlua::Result<Function> {
        let place = script.source().as_ptr().addr();
        if let Some(function) = self.compiled.get(&place) {
            return Ok(function.clone());
        }
        // On the first line, so that line numbers in errors stay right.
        let source = format!("local KEYS, ARGV = ... {}", script.source());
        let function = self
            .lua
            .load(source)
            .set_name(format!("={}", script.name))
            .into_function()?;
        self.compiled.insert(place, function.clone());
        Ok(function)
    }
}

/// Forbids new globals: a machine serves many calls, and a global would affect the next one.
fn seal(lua: &Lua, globals: &Table) -> mlua::Result<()> {
    let refuse = |doing: &'static str| {
        lua.create_function(
            move |_, (_, name): (LuaValue, LuaValue)| -> mlua::Result<()> {
                let name = name.to_string().unwrap_or_default();
                Err(mlua::Error::runtime(format!(
                    "script tried to {doing} global variable '{name}'"
                )))
            },
        )
    };
    let seal = lua.create_table()?;
    seal.raw_set("__index", refuse("read")?)?;
    seal.raw_set("__newindex", refuse("create")?)?;
    globals.set_metatable(Some(seal))
}

/// Creates `redis.call`, which raises errors, or `redis.pcall`, which returns `{err = message}`.
fn caller(lua: &Lua, raises: bool) -> mlua::Result<Function> {
    // Created once, because most writes answer nothing else.
    let fine = lua.create_table()?;
    fine.raw_set("ok", "OK")?;
    lua.create_function(move |lua, words: MultiValue| {
        let mut running = lua
            .app_data_mut::<Running>()
            .ok_or_else(|| mlua::Error::runtime("no script is running"))?;
        match command(&mut running.step, &words) {
            Ok(Reply::Status("OK")) => Ok(LuaValue::Table(fine.clone())),
            Ok(answer) => reply::to_lua(lua, answer),
            Err(failure) if raises => {
                let message = failure.to_string();
                running.failure.get_or_insert(failure);
                Err(mlua::Error::runtime(message))
            }
            Err(failure) => {
                let table = lua.create_table()?;
                table.raw_set("err", failure.to_string())?;
                Ok(LuaValue::Table(table))
            }
        }
    })
}

fn command(step: &mut Step, values: &MultiValue) -> Result<Reply> {
    let words: Vec<Word> = values.iter().map(Word::of).collect::<Result<_, _>>()?;
    let words: Vec<&[u8]> = words.iter().map(Word::bytes).collect();
    commands::run(step, &words)
}
