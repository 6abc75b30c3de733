// SPDX-License-Identifier: Apache-2.0
//! Seeds: messages of real hosts, in the formats of the targets.

use iscsi::pdu::{Digests, LoginRequest, NopOut, ScsiCommand, TextRequest, encode};

pub mod parameter_lists;

type Seeds = Vec<(&'static str, Vec<u8>)>;

/// READ(10), WRITE(10) and other commands of hosts, with the step byte of [`crate::targets::commands`].
const CDBS: [(&str, u8, &[u8]); 24] = [
    ("test_unit_ready", 0, &[0; 6]),
    ("inquiry", 0, &[0x12, 0, 0, 0, 0xff, 0]),
    ("inquiry_vpd", 0, &[0x12, 1, 0x83, 0, 0xff, 0]),
    ("request_sense", 0, &[0x03, 1, 0, 0, 0xfc, 0]),
    ("mode_sense_6", 0, &[0x1a, 0, 0x3f, 0, 0xff, 0]),
    ("mode_select_6", 0, &[0x15, 0x10, 0, 0, 0x18, 0]),
    ("start_stop_unit", 0, &[0x1b, 0, 0, 0, 1, 0]),
    ("read_capacity_10", 1, &[0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
    ("read_10", 1, &[0x28, 0, 0, 0, 0, 8, 0, 0, 8, 0]),
    ("write_10", 1, &[0x2a, 8, 0, 0, 0, 8, 0, 0, 1, 0]),
    ("write_and_verify_10", 1, &[0x2e, 0, 0, 0, 0, 8, 0, 0, 1, 0]),
    ("verify_10", 1, &[0x2f, 2, 0, 0, 0, 8, 0, 0, 1, 0]),
    ("pre_fetch_10", 1, &[0x34, 0, 0, 0, 0, 8, 0, 0, 1, 0]),
    (
        "synchronize_cache_10",
        1,
        &[0x35, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    ),
    ("log_sense", 1, &[0x4d, 0, 0x40, 0, 0, 0, 0, 0, 0xff, 0]),
    ("mode_sense_10", 1, &[0x5a, 0, 0x3f, 0, 0, 0, 0, 0, 0xff, 0]),
    (
        "mode_select_10",
        1,
        &[0x55, 0x10, 0, 0, 0, 0, 0, 0, 0x1c, 0],
    ),
    ("report_luns", 3, &[0xa0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]),
    (
        "report_supported_operation_codes",
        3,
        &[0xa3, 0x0c, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0],
    ),
    (
        "report_supported_functions",
        3,
        &[0xa3, 0x0d, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0],
    ),
    (
        "read_16",
        4,
        &[0x88, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 8, 0, 0],
    ),
    (
        "write_16",
        4,
        &[0x8a, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 1, 0, 0],
    ),
    (
        "verify_16",
        4,
        &[0x8f, 2, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 1, 0, 0],
    ),
    (
        "read_capacity_16",
        4,
        &[0x9e, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0],
    ),
];

/// Keys of a fast initiator.
const OPERATIONAL: &str = "HeaderDigest=CRC32C,None\0DataDigest=None\0InitialR2T=No\0ImmediateData=Yes\0\
    MaxRecvDataSegmentLength=262144\0MaxBurstLength=1048576\0FirstBurstLength=262144\0MaxOutstandingR2T=4\0\
    MaxConnections=1\0DefaultTime2Wait=2\0DefaultTime2Retain=0\0ErrorRecoveryLevel=0\0DataPDUInOrder=Yes\0\
    DataSequenceInOrder=Yes\0IFMarker=No\0OFMarker=No\0TaskReporting=RFC3720\0iSCSIProtocolLevel=1\0";
const NAMES: &str = "InitiatorName=iqn.2026-11.example:host\0InitiatorAlias=a\0SessionType=Normal\0TargetName=iqn.2026-11.example:disk\0";

/// For [`crate::targets::pdu_stream`].
pub fn pdu_stream() -> Seeds {
    let login = LoginRequest {
        transit: true,
        current_stage: 1,
        next_stage: 3,
        ..LoginRequest::default()
    };
    let command = ScsiCommand {
        r#final: true,
        read: true,
        cdb: [0x28, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0],
        ..ScsiCommand::default()
    };
    let ping = NopOut::default();
    // An extended CDB of four bytes, one bidirectional read length.
    let additional = [0, 5, 1, 0, 1, 2, 3, 4, 0, 5, 2, 0, 0, 0, 2, 0];
    let mut seeds = Vec::new();
    for (name, kind) in [("plain", 0), ("digests", 3)] {
        let digests = Digests {
            header: kind & 1 != 0,
            data: kind & 2 != 0,
        };
        let mut stream = vec![kind, 32, 0, 47, 255];
        stream.extend(encode(login.encode(), &[], b"InitiatorName=a\0", digests));
        stream.extend(encode(command.encode(), &additional, &[], digests));
        stream.extend(encode(ping.encode(), &[], b"ping", digests));
        seeds.push((name, stream));
    }
    let mut formed = vec![7, 32, 3, 60, 7];
    formed.extend(command.encode());
    formed.extend([4, 0, 5]);
    formed.extend(additional);
    formed.extend(b"bytes");
    formed.extend(TextRequest::default().encode());
    formed.extend([0, 0, 16]);
    formed.extend(b"SendTargets=All\0");
    seeds.push(("formed", formed));
    seeds
}

/// For [`crate::targets::login`].
pub fn login() -> Seeds {
    let request = |flags: u8, text: &str| {
        let mut bytes = vec![flags, 0];
        bytes.extend((text.len() as u16).to_be_bytes());
        bytes.extend(text.as_bytes());
        bytes
    };
    let chap = |site: u8, response: &str| {
        let method = format!("{NAMES}AuthMethod=CHAP,None\0");
        [
            vec![site, 0],
            request(0x01, &method),
            request(0x01, "CHAP_A=7,5\0".replace("7,", "").as_str()),
            request(0x81, response),
            request(0x87, OPERATIONAL),
        ]
        .concat()
    };
    let discovery = "InitiatorName=iqn.2026-11.example:host\0SessionType=Discovery\0";
    vec![
        (
            "plain",
            [vec![0, 0], request(0x87, &format!("{NAMES}{OPERATIONAL}"))].concat(),
        ),
        (
            "stages",
            [
                vec![0, 0],
                request(0x81, &format!("{NAMES}AuthMethod=None\0")),
                request(0x04, "MaxBurstLength=0x1000\0X-com.example=1\0"),
                request(0x87, ""),
            ]
            .concat(),
        ),
        (
            "continued",
            [
                vec![0, 0],
                request(0x44, "InitiatorName=iqn.2026-11.exa"),
                request(0x87, "mple:host\0SessionType=Discovery\0"),
            ]
            .concat(),
        ),
        ("discovery", [vec![0, 0], request(0x87, discovery)].concat()),
        ("chap", chap(1, "CHAP_N=host\0CHAP_R=?\0")),
        (
            "mutual",
            chap(
                2,
                "CHAP_N=host\0CHAP_R=?\0CHAP_I=7\0CHAP_C=0b0123456789abcdef\0",
            ),
        ),
        (
            "reflected",
            chap(2, "CHAP_N=host\0CHAP_R=?\0CHAP_I=7\0CHAP_C=!\0"),
        ),
        (
            "wrong",
            chap(
                1,
                "CHAP_N=host\0CHAP_R=0x00112233445566778899aabbccddeeff\0",
            ),
        ),
    ]
}

/// For [`crate::targets::connection`].
#[expect(clippy::too_many_lines, reason = "it is a list")]
pub fn connection() -> Seeds {
    let command = |step: u8, flags: u8, what: u8, cdb: &[u8], extra: &[u8]| {
        let mut bytes = vec![step, flags, what];
        bytes.extend(cdb);
        bytes.resize(3 + 16, 0);
        bytes.extend(extra);
        bytes
    };
    // Twice: the first one gets the unit attention.
    let hello = [
        command(0x10, 0x80, 3, &[0; 6], &[0]),
        command(0x10, 0xc0, 0x04, &[0x12, 0, 0, 0, 0xff, 0], &[0]),
        vec![0x3c],
    ]
    .concat();
    let read = command(0x10, 0xc0, 0x20, &[0x28, 0, 0, 0, 0, 8, 0, 0, 8, 0], &[0]);
    let write = command(0x10, 0xa0, 0x20, &[0x2a, 0, 0, 0, 0, 8, 0, 0, 8, 0], &[0]);
    let immediate = command(
        0x10,
        0xa0,
        0x20,
        &[0x2a, 0, 0, 0, 0, 8, 0, 0, 8, 0],
        &[3, 4, 0],
    );
    let with = |choice: u8, plan: &[u8], steps: &[&[u8]]| {
        let mut bytes = vec![choice, plan.len() as u8];
        bytes.extend(plan);
        bytes.extend(&hello);
        bytes.extend(steps.concat());
        bytes
    };
    vec![
        ("read", with(0, &[], &[&read, &[0x3c], &read, &[0x3c]])),
        ("read_digests", with(3, &[2], &[&read, &read, &[0x7c]])),
        (
            "write",
            with(4, &[], &[&write, &[0x3c], &[0x04, 7], &[0x3c]]),
        ),
        (
            "write_small_bursts",
            with(
                0x77,
                &[],
                &[&write, &[0x3c], &[0x14, 7], &[0x14, 8], &[0x3c]],
            ),
        ),
        (
            "write_immediate",
            with(3, &[], &[&immediate, &[0x3c], &[0x04, 7, 0x3c]]),
        ),
        (
            "write_aborted",
            with(4, &[7], &[&write, &[0x3c], &[0x06, 5, 0, 0x3c], &[0x04, 1]]),
        ),
        (
            "abort_task_set",
            with(0, &[7, 7], &[&read, &read, &[0x06, 2, 0x7f, 0x7c]]),
        ),
        (
            "unsolicited",
            with(0, &[], &[&write, &[0x25, 0, 0, 0, 2, 0, 0x3c]]),
        ),
        ("ping", with(0, &[], &[&[0x07, 0, 4, 0x37, 0, 4, 0x3c]])),
        ("silence", with(0, &[], &[&[0x1e, 0x3c, 0x7e, 0x1e]])),
        (
            "text",
            with(
                0xf0,
                &[],
                &[&[0x08, 0, 0x3c, 0x48, 4, b'S', b'e', b'n', b'd']],
            ),
        ),
        ("logout", with(0, &[7], &[&read, &[0x09, 0, 0x3c]])),
        (
            "out_of_order",
            with(
                0,
                &[],
                &[
                    &command(0x60, 0x80, 3, &[0; 6], &[0]),
                    &read,
                    &read,
                    &[0x3c],
                ],
            ),
        ),
        (
            "pieces",
            with(3, &[], &[&[0x2d], &read, &immediate, &[0x3c]]),
        ),
        ("stop", with(0, &[7], &[&read, &[0x0e, 0x3c]])),
        (
            "extended_cdb",
            with(
                0,
                &[],
                &[&command(0x10, 0x80, 3, &[0x7f], &[0x3d]), &[0; 16], &[0x3c]],
            ),
        ),
        (
            "raw",
            with(0, &[], &[&[0x0a, 0x3f], &[0; 49], &[0x0b, 4, 1, 2, 3, 4]]),
        ),
        (
            "stalled",
            with(0, &[], &[&[0x3e], &read, &read, &read, &[0x3c, 0x6e, 0x3c]]),
        ),
    ]
}

/// For [`crate::targets::commands`].
pub fn commands() -> Seeds {
    let step = |bits: u8, what: u8, cdb: &[u8], data: u16| {
        let mut bytes = vec![bits << 4, what];
        bytes.extend(cdb);
        bytes.extend(data.to_be_bytes());
        bytes.extend([1, 2, 3, 4]);
        bytes
    };
    let mut seeds: Seeds = CDBS
        .iter()
        .map(|&(name, what, cdb)| {
            // To both kinds of units, twice: the first one gets the unit attention.
            let steps = [0, 0, 2, 2].map(|bits| [step(bits, what, cdb, 512), vec![0x1a]].concat());
            (name, [vec![0], steps.concat()].concat())
        })
        .collect();
    let ready = step(0, 0, &[0; 6], 0);
    let read = step(0, 1, &[0x28, 0, 0, 0, 0, 8, 0, 0, 8, 0], 0);
    let stuck = step(0, 0x81, &[0x2a, 0, 0, 0, 0, 8, 0, 0, 8, 0], 512);
    let begin = |plan: &[u8]| {
        [
            vec![plan.len() as u8],
            plan.to_vec(),
            ready.clone(),
            vec![9],
        ]
        .concat()
    };
    let manage = |function: u8, what: u8| vec![0x0b | (function << 4), what];
    for (name, function) in [
        ("abort_task", 0),
        ("abort_task_set", 1),
        ("clear_task_set", 2),
        ("logical_unit_reset", 4),
        ("target_reset", 5),
    ] {
        let what = if function == 0 { 0x10 } else { 0 };
        let steps = [
            begin(&[7, 3]),
            read.clone(),
            stuck.clone(),
            manage(function, what),
            vec![0xfa],
        ];
        seeds.push((name, steps.concat()));
    }
    seeds.push((
        "nexus_loss",
        [begin(&[7]), read.clone(), stuck.clone(), vec![0x0d, 0xfa]].concat(),
    ));
    seeds.push((
        "inventory",
        [
            begin(&[7]),
            read.clone(),
            vec![0x1e, 0, 0x0e, 3, 0x2e, 1, 0x0f, 1, 0, 0x3e, 0, 0xfa],
            read.clone(),
        ]
        .concat(),
    ));
    seeds.push((
        "errors",
        [
            begin(&[0x20, 0x40, 0x60]),
            read.clone(),
            vec![9],
            read.clone(),
            vec![9],
            read,
        ]
        .concat(),
    ));
    seeds
}

/// For [`crate::targets::control`].
#[expect(clippy::too_many_lines, reason = "it is a list")]
pub fn control() -> Seeds {
    const TARGET: &str = r#""target":"iqn.2026-11.example:disk""#;
    const LUN: &str = r#""number":0,"uuid":"4f1c6d2e-903b-4a57-8c01-223344556677","path":"/tmp/a""#;
    let call = |method: &str, params: &str| {
        format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{method}\",\"params\":{{{params}}}}}\n"
        )
    };
    let create = call(
        "targets.create",
        r#""name":"iqn.2026-11.example:disk","initiators":"any""#,
    );
    let lun = call("luns.create", &format!("{TARGET},\"lun\":{{{LUN}}}"));
    let of_target = |method: &str| format!("{create}{lun}{}", call(method, TARGET));
    vec![
        ("status", call("status", "").into()),
        (
            "targets",
            format!(
                "{create}{}{}",
                call("targets.list", ""),
                call("targets.delete", r#""name":"iqn.2026-11.example:disk""#)
            )
            .into(),
        ),
        (
            "luns",
            format!(
                "{}{}",
                of_target("luns.list"),
                call("luns.delete", &format!("{TARGET},\"number\":0"))
            )
            .into(),
        ),
        (
            "refresh",
            format!(
                "{create}{lun}{}",
                call("luns.refresh", &format!("{TARGET},\"number\":0"))
            )
            .into(),
        ),
        (
            "accounts",
            format!(
                "{create}{}{}",
                call(
                    "accounts.set",
                    &format!("{TARGET},\"name\":\"a\",\"secret\":\"twelve bytes or more\"")
                ),
                call("accounts.delete", &format!("{TARGET},\"name\":\"a\""))
            )
            .into(),
        ),
        (
            "access",
            format!(
                "{create}{}",
                call(
                    "access.set",
                    &format!("{TARGET},\"initiators\":[\"iqn.2026-11.example:host\"]")
                )
            )
            .into(),
        ),
        (
            "masks",
            format!(
                "{create}{lun}{}",
                call(
                    "access.set",
                    &format!("{TARGET},\"number\":0,\"initiators\":\"any\"")
                )
            )
            .into(),
        ),
        (
            "change",
            format!(
                "{create}{lun}{}{}",
                call(
                    "luns.change",
                    &format!("{TARGET},\"number\":0,\"product\":\"p\",\"read_only\":true")
                ),
                call(
                    "luns.change",
                    &format!("{TARGET},\"number\":0,\"path\":\"/bb\",\"read_only\":false")
                )
            )
            .into(),
        ),
        (
            "portals",
            format!(
                "{}{}{}",
                call("portals.create", r#""address":"127.0.0.1:0","group_tag":2"#),
                call("portals.list", ""),
                call("portals.delete", r#""address":"127.0.0.1:0""#)
            )
            .into(),
        ),
        ("sessions", call("sessions.list", "").into()),
        ("statistics", of_target("statistics.get").into()),
        (
            "wrong",
            b"[]\n{\n1\n{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"a\"}\n".to_vec(),
        ),
    ]
}

/// For [`crate::targets::configuration`].
pub fn configuration() -> Seeds {
    let whole = br#"{"version":2,"portals":[{"address":"[::1]:3260","group_tag":1,"advertised":"192.0.2.1:3260"}],
"targets":[{"name":"iqn.2026-11.example:disk","initiators":["iqn.2026-11.example:host"],
"luns":[{"number":0,"uuid":"4f1c6d2e-903b-4a57-8c01-223344556677","path":"/tmp/a","read_only":false,
"product":"zvaai volume"}]}]}"#;
    vec![
        ("whole", whole.to_vec()),
        ("empty", br#"{"version":2}"#.to_vec()),
        ("version", br#"{"version":3,"targets":[]}"#.to_vec()),
        ("sealed", br#"{"version":2,"key_fingerprint":"AAAAAAAAAAAAAAAAAAAAAA==","portals":[],
"portal_groups":[{"tag":1,"relative_target_port":1,"target_port_group":1}],
"targets":[{"name":"iqn.2026-11.example:disk","initiators":"any","authentication":{"required":true,"incoming":[{"name":"a","sealed_secret":"AAAA"}],"mutual":{"name":"b","sealed_secret":"AAAA"}},
"luns":[{"number":0,"uuid":"4f1c6d2e-903b-4a57-8c01-223344556677","path":"/tmp/a","initiators":["iqn.2026-11.example:host"]}]}]}"#.to_vec()),
    ]
}
