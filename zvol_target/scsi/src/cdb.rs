// SPDX-License-Identifier: Apache-2.0
//! Fields of a command descriptor block (SPC-5 4.2).

/// A command descriptor block. A field beyond its end reads as zero.
///
/// [`crate::command_table`] refuses a block that is too short for its command before any field is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cdb<'a>(pub(crate) &'a [u8]);

impl Cdb<'_> {
    pub(crate) fn byte(self, at: usize) -> u8 {
        self.0.get(at).copied().unwrap_or(0)
    }

    pub(crate) fn bit(self, at: usize, mask: u8) -> bool {
        self.byte(at) & mask != 0
    }

    pub(crate) fn u16(self, at: usize) -> u16 {
        u16::from_be_bytes(self.bytes(at))
    }

    pub(crate) fn u32(self, at: usize) -> u32 {
        u32::from_be_bytes(self.bytes(at))
    }

    pub(crate) fn u64(self, at: usize) -> u64 {
        u64::from_be_bytes(self.bytes(at))
    }

    fn bytes<const N: usize>(self, at: usize) -> [u8; N] {
        self.0
            .get(at..at + N)
            .and_then(|field| field.try_into().ok())
            .unwrap_or([0; N])
    }

    pub(crate) fn operation_code(self) -> u8 {
        self.byte(0)
    }

    /// LOGICAL BLOCK ADDRESS, and TRANSFER LENGTH (or VERIFICATION LENGTH, NUMBER OF LOGICAL BLOCKS), at their positions in CDBs
    /// of 6, 10, 12 and 16 bytes. The operation code's group determines the format (SPC-5 4.2).
    pub(crate) fn block_range(self) -> BlockRange {
        let (address, blocks, blocks_at) = match self.operation_code() >> 5 {
            0 => {
                let address =
                    u32::from_be_bytes([0, self.byte(1) & 0x1f, self.byte(2), self.byte(3)]);
                let length = self.byte(4);
                // SBC-4: zero means 256 in the 6-byte commands.
                (
                    u64::from(address),
                    if length == 0 { 256 } else { u32::from(length) },
                    4,
                )
            }
            4 => (self.u64(2), self.u32(10), 10),
            5 => (u64::from(self.u32(2)), self.u32(6), 6),
            _ => (u64::from(self.u32(2)), u32::from(self.u16(7)), 7),
        };
        BlockRange {
            address,
            blocks,
            blocks_at,
        }
    }
}

/// Logical blocks of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockRange {
    /// First logical block address.
    pub(crate) address: u64,
    /// Number of logical blocks.
    pub(crate) blocks: u32,
    /// Byte of the CDB with the number of blocks, for a field pointer.
    pub(crate) blocks_at: u16,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(cdb: &[u8]) -> (u64, u32, u16) {
        let BlockRange {
            address,
            blocks,
            blocks_at,
        } = Cdb(cdb).block_range();
        (address, blocks, blocks_at)
    }

    #[test]
    fn block_range_of_every_format() {
        assert_eq!(range(&[0x08, 0xff, 2, 3, 4, 0]), (0x1f_0203, 4, 4));
        assert_eq!(range(&[0x0a, 0, 0, 0, 0, 0]), (0, 256, 4));
        assert_eq!(
            range(&[0x28, 0, 1, 2, 3, 4, 0, 5, 6, 0]),
            (0x0102_0304, 0x0506, 7)
        );
        assert_eq!(
            range(&[0xa8, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0]),
            (0x0102_0304, 0x0506_0708, 6)
        );
        assert_eq!(
            range(&[0x88, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0, 0]),
            (0x0102_0304_0506_0708, 0x090a_0b0c, 10)
        );
    }

    #[test]
    fn fields_beyond_the_end_are_zero() {
        let cdb = Cdb(&[0xff; 6]);
        assert_eq!(
            (cdb.byte(6), cdb.u16(5), cdb.u32(4), cdb.u64(0)),
            (0, 0, 0, 0)
        );
    }
}
