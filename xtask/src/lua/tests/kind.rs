//! Scripts that the table of a kind names.

use super::*;

/// The mutex as a kind: its table names the script, and the engine has the operation and the decoder.
fn as_a_kind(operation: &str, decoder: &str) -> Vec<String> {
    let file = |path: &str, text: &str| File {
        path: path.to_owned(),
        text: text.to_owned(),
    };
    let kind = "static MUTEX: Kind = Kind { name: \"mutex\", side_keys: &[], release_keys: &[\"more\"], \
                acquire: Step::new(script!(\"mutex/acquire\").with(GRANT)) };";
    let lua = vec![
        file("crates/leaselock/lua/mutex/acquire.lua", ACQUIRE),
        file("crates/leaselock/lua/prelude.lua", PRELUDE),
    ];
    let rust = vec![
        file("crates/leaselock/src/mutex/kind.rs", kind),
        file("crates/leaselock/src/engine/values/calls.rs", operation),
        file("crates/leaselock/src/engine/values/grant.rs", decoder),
        file(WHITELIST, COMMANDS),
    ];
    let found = check(&Sources::parse(lua, rust));
    let found = found.into_iter().filter(|one| one.file.ends_with(".rs"));
    found
        .filter(|one| one.file != WHITELIST)
        .map(|one| one.wrong)
        .collect()
}

#[test]
fn script_of_a_kind_has_its_operation_and_its_decoder_in_the_engine() {
    let operation = "impl Operation for Acquire<'_> {
        fn encode(&self, call: &mut Call) { self.keys.write_keys(call); call.arg(self.token).arg(self.ttl); }
        fn decode(answer: &Answer) -> Result<Acquired, Malformed> { Acquired::decode(answer) } }";
    let operation = operation.replace("self.keys.write_keys(call);", "call.key(a).key(b);");
    let decoder = |arms: &str| {
        format!(
            "impl Acquired {{ fn decode(answer: &Answer) {{ match answer.tag() {{ {arms} => x }} }} }}"
        )
    };
    let right = decoder("\"granted\" | \"busy\"");
    assert_eq!(as_a_kind(&operation, &right), [""; 0]);
    assert_eq!(
        as_a_kind(&operation, &decoder("\"granted\"")),
        ["mutex/acquire does not decode \"busy\""]
    );
    assert_eq!(
        as_a_kind(&operation, &decoder("\"granted\" | \"busy\" | \"odd\"")),
        ["Acquired decodes \"odd\", which no script answers"]
    );
    assert_eq!(
        as_a_kind(&operation.replace("Acquire<", "Take<"), &right),
        ["mutex/acquire has no operation of its name"]
    );
    // The lock and the gate, and none beside them.
    let both = operation.replace("call.key(a).key(b);", "self.keys.write_keys(call);");
    assert_eq!(as_a_kind(&both, &right), [""; 0]);
    let one_more = both.replace("call.arg", "call.key(c).arg");
    assert_eq!(
        as_a_kind(&one_more, &right),
        ["mutex/acquire gives 3 KEYS, the header lists 2"]
    );
    let released = both.replace("write_keys", "write_release_keys");
    assert_eq!(
        as_a_kind(&released, &right),
        ["mutex/acquire gives 3 KEYS, the header lists 2"]
    );
}
