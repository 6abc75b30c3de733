//! `portals.list`

use serde_json::{Value, json};

use crate::service::Service;

pub(super) fn list(service: &Service) -> Value {
    json!({"portals": show_all(service)})
}

pub(super) fn show_all(service: &Service) -> Vec<Value> {
    let portals = service.portals();
    let show =
        |portal: &iscsi::Portal| json!({"address": portal.address, "group_tag": portal.group_tag});
    portals.iter().map(show).collect()
}
