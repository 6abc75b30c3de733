// SPDX-License-Identifier: Apache-2.0
//! Independent initiators: libiscsi's tools and qemu-img (Debian packages libiscsi-bin, qemu-utils).

use std::process::Command;

use crate::support::{Fixture, TARGET};
use iscsi::{Authentication, ChapAccount, Secret, ServerOptions};

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .unwrap_or_else(|error| panic!("{program} is needed: {error}"));
    let (text, errors) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {text}{errors}"
    );
    text.into_owned()
}

#[test]
fn libiscsi_discovers_and_inquires() {
    let fixture = Fixture::new();
    let portal = format!("iscsi://{}/", fixture.address);
    let list = run("iscsi-ls", &["-s", &portal]);
    assert!(
        list.contains(&format!("Target:{TARGET} Portal:{},7", fixture.address)),
        "{list}"
    );
    assert!(list.contains("Lun:0"), "{list}");
    let unit = format!("{portal}{TARGET}/0");
    assert!(run("iscsi-inq", &[&unit]).contains("Vendor:EXAMPLE"));
    assert!(run("iscsi-readcapacity16", &[&unit]).contains("Total size:16777216"));
}

#[test]
fn libiscsi_logs_in_with_chap_one_way_and_mutual() {
    let account = |name: &str, secret: &str| ChapAccount {
        name: name.into(),
        secret: Secret::new(secret.as_bytes()).unwrap(),
        initiators: None,
    };
    let fixture = Fixture::with(ServerOptions::default(), |definition| {
        definition.authentication = Authentication {
            incoming: vec![account("user", "incoming secret1")],
            outgoing: Some(account("target", "outgoing secret1")),
        };
    });
    let unit =
        |user: &str, more: &str| format!("iscsi://{user}@{}/{TARGET}/0{more}", fixture.address);
    let one_way = unit("user%incoming secret1", "");
    assert!(run("iscsi-inq", &[&one_way]).contains("Vendor:EXAMPLE"));
    let mutual = unit(
        "user%incoming secret1",
        "?target_user=target&target_password=outgoing secret1",
    );
    assert!(run("iscsi-inq", &[&mutual]).contains("Vendor:EXAMPLE"));
    for wrong in [
        unit("user%incoming secret2", ""),
        unit(
            "user%incoming secret1",
            "?target_user=target&target_password=outgoing secret2",
        ),
    ] {
        let status = Command::new("iscsi-inq")
            .arg(&wrong)
            .output()
            .unwrap()
            .status;
        assert!(!status.success(), "{wrong}");
    }
}

#[test]
fn qemu_img_copies_an_image_to_the_lun_and_back() {
    let fixture = Fixture::new();
    for digest in ["none", "crc32c"] {
        let folder =
            std::env::temp_dir().join(format!("iscsi-clients-{}-{digest}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
        let image: Vec<u8> = (0..16u32 << 20)
            .map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8)
            .collect();
        std::fs::write(path("image"), &image).unwrap();
        let unit = format!(
            "driver=iscsi,transport=tcp,portal={},target={TARGET},lun=0,header-digest={digest}",
            fixture.address
        );
        run(
            "qemu-img",
            &[
                "convert",
                "-n",
                "-f",
                "raw",
                "--target-image-opts",
                &path("image"),
                &unit,
            ],
        );
        assert!(
            fixture.device.bytes(0, image.len()) == image,
            "written otherwise"
        );
        run(
            "qemu-img",
            &["convert", "--image-opts", &unit, "-O", "raw", &path("copy")],
        );
        assert!(
            std::fs::read(path("copy")).unwrap() == image,
            "read otherwise"
        );
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
