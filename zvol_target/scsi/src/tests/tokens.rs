// SPDX-License-Identifier: Apache-2.0
//! POPULATE TOKEN, WRITE USING TOKEN and RECEIVE ROD TOKEN INFORMATION.

use std::sync::Arc;
use std::task::Poll;

use volume::{Buffer, Stability, Volume};

use super::{
    BLOCKS, INVALID_FIELD_IN_CDB, Initiator, RamVolume, Sent, TEST_UNIT_READY, block_on, is_good,
    options, pattern, poll, product, write_10,
};
use crate::address::logical_unit_number;
use crate::sam::{Completion, Outcome, ScsiTarget, Status, TaskAttribute};
use crate::{Device, Family, LogicalUnit, LogicalUnitAccess, LogicalUnitOptions};

type Token = [u8; 512];

const TOKEN_CANCELLED: (u8, u8, u8) = (5, 0x23, 0x08);
const TOKEN_UNKNOWN: (u8, u8, u8) = (5, 0x23, 0x04);

fn cdb(code: u8, action: u8, list_identifier: u32, length: usize) -> [u8; 16] {
    let mut cdb = [0; 16];
    cdb[..2].copy_from_slice(&[code, action]);
    let at = if code == 0x83 { 6 } else { 2 };
    cdb[at..at + 4].copy_from_slice(&list_identifier.to_be_bytes());
    cdb[10..14].copy_from_slice(&(length as u32).to_be_bytes());
    cdb
}

fn with_ranges(mut list: Vec<u8>, ranges: &[(u64, u32)]) -> Vec<u8> {
    let header = list.len();
    for (address, blocks) in ranges {
        list.extend_from_slice(&address.to_be_bytes());
        list.extend_from_slice(&blocks.to_be_bytes());
        list.extend_from_slice(&[0; 4]);
    }
    let length = (list.len() - header) as u16;
    list[header - 2..header].copy_from_slice(&length.to_be_bytes());
    let length = (list.len() - 2) as u16;
    list[..2].copy_from_slice(&length.to_be_bytes());
    list
}

fn run_list(initiator: &Initiator, action: u8, list_identifier: u32, list: &[u8]) -> Completion {
    let cdb = cdb(0x83, action, list_identifier, list.len());
    initiator.run_with(&cdb, Sent::boxed(list))
}

fn information(initiator: &Initiator, list_identifier: u32) -> Vec<u8> {
    initiator.data(&cdb(0x84, 0x07, list_identifier, 1024))
}

fn populate(initiator: &Initiator, ranges: &[(u64, u32)]) -> Token {
    let list = with_ranges(vec![0; 16], ranges);
    assert_eq!(run_list(initiator, 0x10, 77, &list).status, Status::Good);
    let data = information(initiator, 77);
    assert_eq!((data[4], data[5]), (0x10, 0x01));
    let blocks: u64 = ranges.iter().map(|(_, blocks)| u64::from(*blocks)).sum();
    assert_eq!((data[15], &data[16..24]), (0xf1, &blocks.to_be_bytes()[..]));
    assert_eq!(data[32..36], [0, 0, 2, 2]);
    assert_eq!(data.len(), 38 + 512);
    data[38..].try_into().unwrap()
}

fn write_list(token: &Token, offset: u64, delete: bool, ranges: &[(u64, u32)]) -> Vec<u8> {
    let mut list = vec![0, 0, if delete { 2 } else { 0 }, 0, 0, 0, 0, 0];
    list.extend_from_slice(&offset.to_be_bytes());
    list.extend_from_slice(token);
    list.extend_from_slice(&[0; 8]);
    with_ranges(list, ranges)
}

fn write_using(
    initiator: &Initiator,
    token: &Token,
    offset: u64,
    ranges: &[(u64, u32)],
) -> Completion {
    run_list(
        initiator,
        0x11,
        78,
        &write_list(token, offset, false, ranges),
    )
}

fn codes(completion: &Completion) -> (u8, u8, u8) {
    assert_eq!(completion.status, Status::CheckCondition);
    let sense = &completion.sense;
    (sense[2] & 0x0f, sense[12], sense[13])
}

/// Blocks written by the last WRITE USING TOKEN, and its COPY OPERATION STATUS.
fn written(initiator: &Initiator) -> (u64, u8) {
    let data = information(initiator, 78);
    assert_eq!((data[4], data[15]), (0x11, 0xf1));
    (
        u64::from_be_bytes(data[16..24].try_into().unwrap()),
        data[5],
    )
}

/// Units 0 and 1.
fn setup() -> ([Arc<RamVolume>; 2], Initiator) {
    let volumes = [RamVolume::new(BLOCKS), RamVolume::new(BLOCKS)];
    let device = Arc::new(Device::new(product()));
    for (number, volume) in volumes.iter().enumerate() {
        let options = LogicalUnitOptions {
            uuid: [number as u8 + 1; 16],
            ..options()
        };
        let volume: Arc<dyn Volume> = Arc::clone(volume) as _;
        let unit = LogicalUnit::new(volume, options).unwrap();
        device
            .insert_logical_unit(number as u16, unit, LogicalUnitAccess::Any)
            .unwrap();
    }
    let initiator = Initiator::of(device);
    while second(&initiator).run(&TEST_UNIT_READY).status != Status::Good {}
    (volumes, initiator)
}

fn second(initiator: &Initiator) -> Initiator {
    initiator.to(logical_unit_number(1))
}

fn fill(volume: &RamVolume, address: u64, data: &[u8]) {
    block_on(volume.write(address * 512, Buffer::from(data), Stability::Stable)).unwrap();
}

#[test]
fn the_blocks_of_a_token_are_written_to_another_unit() {
    let (volumes, initiator) = setup();
    let data = pattern(5, 100);
    fill(&volumes[0], 10, &data);
    let token = populate(&initiator, &[(10, 60), (70, 40)]);
    let other_unit = second(&initiator);
    assert_eq!(
        write_using(&other_unit, &token, 0, &[(0, 50), (1000, 50)]).status,
        Status::Good
    );
    assert_eq!(written(&other_unit), (100, 0x01));
    assert_eq!(volumes[1].bytes(0, 512 * 50), data[..512 * 50]);
    assert_eq!(volumes[1].bytes(512 * 1000, 512 * 50), data[512 * 50..]);
    // From an offset on, and more blocks than the token has.
    assert_eq!(
        write_using(&other_unit, &token, 90, &[(2000, 30)]).status,
        Status::Good
    );
    assert_eq!(written(&other_unit), (10, 0x03));
    assert_eq!(
        volumes[1].bytes(512 * 2000, 512 * 11)[..512 * 10],
        data[512 * 90..]
    );
    assert_eq!(volumes[1].bytes(512 * 2010, 512), [0; 512]);
    assert_eq!(
        codes(&write_using(&other_unit, &token, 100, &[(0, 1)])),
        (5, 0x26, 0)
    );
    // In one unit, by another host.
    let other = Initiator::of(Arc::clone(&initiator.device));
    assert_eq!(
        write_using(&other, &token, 0, &[(5000, 100)]).status,
        Status::Good
    );
    assert_eq!(volumes[0].bytes(512 * 5000, 512 * 100), data);
    let statistics = other.device.logical_unit(0).unwrap().statistics();
    assert_eq!(statistics[Family::Token].bytes, 512 * 100);
    assert_eq!(statistics.offload.copied_bytes, 512 * 100);
}

#[test]
fn a_token_is_cancelled_only_by_a_write_to_its_blocks() {
    let (volumes, initiator) = setup();
    fill(&volumes[0], 0, &pattern(5, 100));
    let other_unit = second(&initiator);
    for (address, cancels) in [(9, false), (20, false), (10, true), (19, true)] {
        let token = populate(&initiator, &[(10, 10)]);
        let other = Initiator::of(Arc::clone(&initiator.device));
        other.send(&write_10(address, 1), &[7; 512]);
        volumes[1].events();
        let completion = write_using(&other_unit, &token, 0, &[(0, 10)]);
        if cancels {
            assert_eq!(codes(&completion), TOKEN_CANCELLED, "{address}");
            assert!(volumes[1].events().is_empty());
            assert_eq!(
                codes(&write_using(&other_unit, &token, 0, &[(0, 10)])),
                TOKEN_CANCELLED
            );
        } else {
            assert_eq!(completion.status, Status::Good, "{address}");
        }
    }
}

#[test]
fn a_token_waits_for_running_writes() {
    let (volumes, initiator) = setup();
    volumes[0].hold();
    let mut write = initiator.execute(
        1,
        TaskAttribute::Simple,
        &write_10(0, 1),
        Sent::boxed(&[7; 512]),
    );
    assert!(poll(&mut write).is_pending());
    let list = with_ranges(vec![0; 16], &[(0, 1)]);
    let cdb = cdb(0x83, 0x10, 77, list.len());
    let mut made = initiator.execute(2, TaskAttribute::Simple, &cdb, Sent::boxed(&list));
    for _ in 0..5 {
        assert!(poll(&mut made).is_pending());
    }
    volumes[0].release(100);
    assert!(is_good(&Poll::Ready(block_on(write))));
    assert!(is_good(&Poll::Ready(block_on(made))));
    let token: Token = information(&initiator, 77)[38..].try_into().unwrap();
    assert_eq!(
        write_using(&second(&initiator), &token, 0, &[(0, 1)]).status,
        Status::Good
    );
    assert_eq!(volumes[1].bytes(0, 512), [7; 512]);
}

#[test]
fn a_change_while_a_token_is_used_ends_it_with_nothing_new_written() {
    let (volumes, initiator) = setup();
    fill(&volumes[0], 0, &pattern(1, 8192));
    let old = volumes[0].bytes(0, 512 * 8192);
    let token = populate(&initiator, &[(0, 8192)]);
    let other_unit = second(&initiator);
    volumes[1].hold();
    let list = write_list(&token, 0, false, &[(0, 8192)]);
    let cdb = cdb(0x83, 0x11, 78, list.len());
    let mut task = other_unit.execute(1, TaskAttribute::Simple, &cdb, Sent::boxed(&list));
    while volumes[1].begun() == 0 {
        assert!(poll(&mut task).is_pending());
    }
    // The last block: it does not wait for the block that is being read.
    initiator.send(&write_10(8191, 1), &[9; 512]);
    volumes[1].release(1000);
    let completion = match block_on(task) {
        Outcome::Completed(completion) => completion,
        Outcome::Aborted => panic!("aborted"),
    };
    assert_eq!(codes(&completion), (0x0a, 0x23, 0x08));
    let new = volumes[1].bytes(0, 512 * 8192);
    let same = |(new, old): (&[u8], &[u8])| new == old || new.iter().all(|&byte| byte == 0);
    assert!(new.chunks(512).zip(old.chunks(512)).all(same));
    assert_eq!(new[512 * 8191..], [0; 512]);
}

#[test]
fn only_an_unchanged_token_is_accepted() {
    let (_, initiator) = setup();
    let token = populate(&initiator, &[(0, 8)]);
    for at in [8, 15, 24, 63, 128, 300, 511] {
        let mut forged = token;
        forged[at] ^= 1;
        assert_eq!(
            codes(&write_using(&initiator, &forged, 0, &[(100, 8)])),
            TOKEN_UNKNOWN
        );
    }
    let change = |at: usize, value| {
        let mut other = token;
        other[at] = value;
        codes(&write_using(&initiator, &other, 0, &[(100, 8)]))
    };
    assert_eq!(change(7, 0xf7), (5, 0x23, 0x0a));
    assert_eq!(change(3, 0x02), (5, 0x23, 0x01));
    let stranger = {
        let device = Arc::new(Device::new(product()));
        let volume: Arc<dyn Volume> = RamVolume::new(BLOCKS) as _;
        let unit = LogicalUnit::new(volume, options()).unwrap();
        device
            .insert_logical_unit(0, unit, LogicalUnitAccess::Any)
            .unwrap();
        Initiator::of(device)
    };
    assert_eq!(
        codes(&write_using(&stranger, &token, 0, &[(100, 8)])),
        TOKEN_UNKNOWN
    );
    // Tokens are never equal.
    assert_ne!(populate(&initiator, &[(0, 8)])[128..], token[128..]);
    // Deleted after its last use.
    let list = write_list(&token, 0, true, &[(100, 8)]);
    assert_eq!(run_list(&initiator, 0x11, 78, &list).status, Status::Good);
    assert_eq!(
        codes(&write_using(&initiator, &token, 0, &[(200, 8)])),
        (5, 0x23, 0x09)
    );
}

#[test]
fn zeroes_need_no_token_made() {
    let (volumes, initiator) = setup();
    fill(&volumes[0], 0, &pattern(3, 100));
    let mut token = [0; 512];
    token[..8].copy_from_slice(&[0xff, 0xff, 0, 1, 0, 0, 0x01, 0xf8]);
    assert_eq!(
        write_using(&initiator, &token, 12345, &[(10, 20), (50, 10)]).status,
        Status::Good
    );
    assert_eq!(written(&initiator), (30, 0x01));
    let bytes = volumes[0].bytes(0, 512 * 100);
    for (block, bytes) in bytes.chunks(512).enumerate() {
        let cleared = (10..30).contains(&block) || (50..60).contains(&block);
        assert_eq!(bytes.iter().all(|&byte| byte == 0), cleared, "{block}");
    }
}

#[test]
fn a_host_has_so_many_tokens_and_its_oldest_makes_room() {
    let (_, initiator) = setup();
    let other = Initiator::of(Arc::clone(&initiator.device));
    let of_other = populate(&other, &[(0, 8)]);
    let first = populate(&initiator, &[(0, 8)]);
    let tokens: Vec<_> = (0..64).map(|_| populate(&initiator, &[(0, 8)])).collect();
    assert_eq!(
        codes(&write_using(&initiator, &first, 0, &[(100, 8)])),
        TOKEN_UNKNOWN
    );
    for token in [tokens[0], tokens[63], of_other] {
        assert_eq!(
            write_using(&initiator, &token, 0, &[(100, 8)]).status,
            Status::Good
        );
    }
}

#[test]
fn missing_and_too_many_blocks_are_refused() {
    let (volumes, initiator) = setup();
    let token = populate(&initiator, &[(0, 8)]);
    let list = with_ranges(vec![0; 16], &[(BLOCKS - 1, 2)]);
    assert_eq!(codes(&run_list(&initiator, 0x10, 1, &list)), (5, 0x21, 0));
    assert_eq!(
        codes(&write_using(&initiator, &token, 0, &[(BLOCKS, 1)])),
        (5, 0x21, 0)
    );
    assert_eq!(initiator.run(&cdb(0x83, 0x10, 1, 0)).status, Status::Good);
    assert_eq!(initiator.run(&cdb(0x83, 0x11, 1, 0)).status, Status::Good);
    assert_eq!(
        initiator.code(&cdb(0x84, 0x07, 1, 64), &[]),
        INVALID_FIELD_IN_CDB
    );
    volumes[1].set_read_only();
    let other_unit = second(&initiator);
    assert_eq!(
        codes(&write_using(&other_unit, &token, 0, &[(0, 8)])),
        (7, 0x27, 0)
    );
}

#[test]
fn a_token_outlives_its_nexus_but_not_its_unit() {
    let (_, initiator) = setup();
    let maker = Initiator::of(Arc::clone(&initiator.device));
    let token = populate(&maker, &[(0, 8)]);
    initiator
        .device
        .set_offload_policy(crate::OffloadPolicy::default());
    ScsiTarget::nexus_lost(&*initiator.device, &maker.nexus);
    let other_unit = second(&initiator);
    assert_eq!(
        write_using(&other_unit, &token, 0, &[(0, 8)]).status,
        Status::Good
    );
    let removed = initiator.device.remove_logical_unit(0).unwrap();
    let unit = Arc::downgrade(&removed);
    drop(removed);
    // Nor does it keep its volume open.
    assert_eq!(unit.strong_count(), 0);
    while other_unit.run(&TEST_UNIT_READY).status != Status::Good {}
    assert_eq!(
        codes(&write_using(&other_unit, &token, 0, &[(0, 8)])),
        TOKEN_CANCELLED
    );
}

fn only(initiator: &Initiator) -> LogicalUnitAccess {
    LogicalUnitAccess::Initiators([initiator.nexus.initiator_device.clone()].into())
}

#[test]
fn a_token_is_valid_while_its_creator_may_use_the_unit() {
    let (_, initiator) = setup();
    let device = &initiator.device;
    let other_unit = second(&initiator);
    let good = |token| write_using(&other_unit, &token, 0, &[(0, 8)]).status == Status::Good;
    let cancelled =
        |token| codes(&write_using(&other_unit, &token, 0, &[(0, 8)])) == TOKEN_CANCELLED;
    let maker = Initiator::of(Arc::clone(device));
    let [lost, retained] = [&maker, &initiator].map(|maker| populate(maker, &[(0, 8)]));
    assert!(good(lost) && good(retained));
    device.set_access(0, only(&initiator)).unwrap();
    assert!(cancelled(lost) && good(retained));
    device.set_access(0, LogicalUnitAccess::Any).unwrap();
    assert!(cancelled(lost), "for good");
}

#[test]
fn a_unit_that_was_rolled_back_has_no_tokens() {
    let (_, initiator) = setup();
    let token = populate(&initiator, &[(0, 8)]);
    let other_unit = second(&initiator);
    assert_eq!(
        write_using(&other_unit, &token, 0, &[(0, 8)]).status,
        Status::Good
    );
    initiator.device.content_changed(0).unwrap();
    assert_eq!(
        codes(&write_using(&other_unit, &token, 0, &[(0, 8)])),
        TOKEN_CANCELLED
    );
}

#[test]
fn a_token_whose_maker_loses_the_unit_while_it_is_used_writes_nothing_more() {
    let (volumes, initiator) = setup();
    fill(&volumes[0], 0, &pattern(1, 8192));
    let maker = Initiator::of(Arc::clone(&initiator.device));
    let token = populate(&maker, &[(0, 8192)]);
    let other_unit = second(&initiator);
    volumes[1].hold();
    let list = write_list(&token, 0, false, &[(0, 8192)]);
    let cdb = cdb(0x83, 0x11, 78, list.len());
    let mut task = other_unit.execute(1, TaskAttribute::Simple, &cdb, Sent::boxed(&list));
    while volumes[1].begun() == 0 {
        assert!(poll(&mut task).is_pending());
    }
    initiator.device.set_access(0, only(&initiator)).unwrap();
    volumes[1].release(1000);
    let Outcome::Completed(completion) = block_on(task) else {
        panic!("aborted");
    };
    assert_eq!(codes(&completion), (0x0a, 0x23, 0x08));
    assert_eq!(volumes[1].bytes(512 * 8191, 512), [0; 512]);
}

#[test]
fn a_unit_that_shrank_and_grew_again_has_no_tokens() {
    let (volumes, initiator) = setup();
    let token = populate(&initiator, &[(BLOCKS - 8, 8)]);
    for blocks in [BLOCKS / 2, BLOCKS] {
        volumes[0].resize(blocks);
        initiator.device.capacity_changed(0).unwrap();
    }
    let other_unit = second(&initiator);
    assert_eq!(
        codes(&write_using(&other_unit, &token, 0, &[(0, 8)])),
        TOKEN_CANCELLED
    );
}
