//! `portals.list`

use serde_json::{Value, json};

use crate::service::Service;

pub(super) fn list(service: &Service) -> Value {
    json!({"portals": show_all(service)})
}

pub(super) fn show_all(service: &Service) -> Vec<Value> {
    let portals = service.portals();
    portals.iter().map(show).collect()
}

fn show(portal: &iscsi::Portal) -> Value {
    let mut shown = json!({"address": portal.address, "group_tag": portal.group_tag});
    if let Some(advertised) = portal.advertised {
        shown["advertised"] = json!(advertised);
    }
    shown
}
