// SPDX-License-Identifier: Apache-2.0
//! A step: host and disk, list identifier and its usage, CSCD descriptors, segment descriptors, and the changes of the list. Then
//! RECEIVE COPY RESULTS.

use scsi::sam::Status;

use super::rig::{BLOCK_BYTES, BLOCKS, DISKS, Rig};
use super::tamper;
use crate::input::Input;

/// In bytes.
struct Segment {
    source: usize,
    destination: usize,
    length: usize,
    from: usize,
    to: usize,
}

/// A segment, and its descriptor.
fn segment(input: &mut Input) -> (Segment, Vec<u8>) {
    let ends = input.byte();
    let (source, destination) = (ends & 7, (ends >> 4) & 7);
    let count = input.byte();
    let addresses = [input.half() % 600, input.half() % 600].map(u64::from);
    let mut descriptor = vec![2, 2, 0, 0x18, 0, source, 0, destination, 0, 0, 0, count];
    descriptor.extend(addresses.map(u64::to_be_bytes).concat());
    let [from, to] = addresses.map(|address| address as usize * BLOCK_BYTES);
    let segment = Segment {
        source: source.into(),
        destination: destination.into(),
        length: usize::from(count) * BLOCK_BYTES,
        from,
        to,
    };
    (segment, descriptor)
}

pub(super) fn step(rig: &mut Rig, input: &mut Input) {
    let what = input.byte();
    let (disk, host) = (usize::from(what) % DISKS, usize::from((what >> 2) & 1));
    if what >> 7 != 0 {
        receive(rig, input, host, disk);
        return;
    }
    let (identifier, flags, counts) = (input.byte(), input.byte(), input.byte());
    let (cscd_count, segment_count) = (usize::from(counts & 7), usize::from((counts >> 3) & 7));
    let mut odd = false;
    let (mut cscds, mut disks) = (Vec::new(), Vec::new());
    for _ in 0..cscd_count {
        let which = input.byte();
        let mut naa = rig.naa(usize::from(which) % DISKS);
        disks.push(usize::from(which) % DISKS);
        if which >> 7 != 0 {
            naa[15] ^= 0x55;
            odd = true;
        }
        cscds.extend([0xe4, 0, 0, 0, 1, 3, 0, 16]);
        cscds.extend(naa);
        cscds.extend([0, 0, 0, 0, 0, 0, 2, 0]);
    }
    let (mut descriptors, mut segments) = (Vec::new(), Vec::new());
    for _ in 0..segment_count {
        let (segment, descriptor) = segment(input);
        descriptors.extend(descriptor);
        segments.push(segment);
    }
    let mut list = vec![identifier, flags];
    list.extend((cscds.len() as u16).to_be_bytes());
    list.extend([0; 4]);
    list.extend((descriptors.len() as u32).to_be_bytes());
    list.extend([0; 4]);
    list.extend(cscds);
    list.extend(descriptors);
    let changed = tamper(&mut list, input);
    let mut cdb = [0; 16];
    cdb[0] = 0x83;
    cdb[1] = u8::from(input.byte() == 1);
    let said = match input.byte() {
        0 => list.len() as u32,
        _ => u32::from(input.half()),
    };
    cdb[10..14].copy_from_slice(&said.to_be_bytes());

    let mut expected = rig.contents();
    let answer = rig.execute(host, disk, &cdb, &list);
    if answer.status == Status::Good
        && !changed
        && !odd
        && said as usize == list.len()
        && cdb[1] == 0
    {
        for segment in segments {
            let (from, to, length) = (segment.from, segment.to, segment.length);
            let end = BLOCKS as usize * BLOCK_BYTES;
            assert!(from + length <= end && to + length <= end, "beyond the end");
            let source = expected[disks[segment.source]][from..from + length].to_vec();
            expected[disks[segment.destination]][to..to + length].copy_from_slice(&source);
        }
        assert!(
            rig.contents() == expected,
            "GOOD, but other data than requested"
        );
    }
}

/// Any RECEIVE COPY RESULTS; its length field must be right.
fn receive(rig: &mut Rig, input: &mut Input, host: usize, disk: usize) {
    let mut cdb = [0; 16];
    cdb[0] = 0x84;
    cdb[1] = input.byte() & 0x1f;
    cdb[2] = input.byte();
    let length = u32::from(input.half());
    cdb[10..14].copy_from_slice(&length.to_be_bytes());
    let answer = rig.execute(host, disk, &cdb, &[]);
    if answer.status == Status::Good && answer.data.len() >= 4 {
        let available = u32::from_be_bytes(answer.data[..4].try_into().expect("four bytes"));
        assert!(answer.data.len() as u64 <= u64::from(available) + 4);
    }
}
