//! The OpenAPI document is part of the API: a changed snapshot is a changed API.

use std::collections::BTreeSet;

#[test]
fn the_document_is_what_was_agreed() {
    insta::assert_json_snapshot!(holm_node::http::document());
}

#[test]
fn every_write_takes_an_idempotency_key_and_every_operation_can_fail() {
    let document = serde_json::to_value(holm_node::http::document()).unwrap();
    let mut ids = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let problem = &operation["responses"]["default"]["content"]["application/problem+json"];
            assert_eq!(problem["schema"]["$ref"], "#/components/schemas/Problem", "{method} {path}");
            let names: Vec<_> = operation["parameters"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|parameter| parameter["name"].as_str().unwrap())
                .collect();
            assert_eq!(names.contains(&"Idempotency-Key"), method != "get", "{method} {path}: {names:?}");
            assert!(ids.insert(operation["operationId"].to_string()), "{method} {path}: its id is taken");
        }
    }
}
