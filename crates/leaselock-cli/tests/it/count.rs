//! `leaselock count`: a number that is added to.

use crate::common::{object, on_both};

#[test]
fn a_counter_is_added_to_read_and_replaced_if_it_is_the_expected_number() {
    on_both(|store| {
        let count = |words: &[&str]| store.run(&[&["count", "builds"], words].concat());
        assert_eq!(count(&["--get"]).gives(0).out, "0\n");
        assert_eq!(count(&[]).gives(0).out, "1\n");
        assert_eq!(count(&["--add", "-5"]).gives(0).out, "-4\n");
        assert_eq!(count(&["--cas", "-4", "7"]).gives(0).out, "7\n");
        assert_eq!(count(&["--cas", "-4", "8"]).gives(1).out, "7\n");
        let seen = object(&count(&["--get", "--json"]).gives(0).out);
        assert_eq!(seen, serde_json::json!({ "name": "builds", "value": 7 }));
        count(&["--add", "9223372036854775807"]).refuses(77, "more than 64 bits");
        assert_eq!(count(&["--get"]).gives(0).out, "7\n");
        let holder = ["--fenced", "34.b.import", "--add"];
        assert_eq!(count(&[&holder[..], &["1"]].concat()).gives(0).out, "8\n");
        count(&["--fenced", "33.a.import"]).refuses(79, "the counter has seen 34");
        count(&["--fenced", "35.a.export"]).refuses(77, "`import` does");
        count(&["--fenced", "33"]).refuses(64, "not a sequencer");
        assert_eq!(count(&["--get"]).gives(0).out, "8\n");
        count(&["--min-replicas", "0"]).refuses(64, "at least one replica");
        count(&["--add", "1", "--get"]).refuses(64, "cannot be used with");
        count(&["--add", "many"]).refuses(64, "many");
        assert_eq!(store.run(&["ls", "--names"]).gives(0).out, "");
    });
}
