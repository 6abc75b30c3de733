// SPDX-License-Identifier: Apache-2.0
//! Position of fields in the Basic Header Segment, for encoding and decoding.

/// Length of the Basic Header Segment (RFC 7143 11.2.1).
pub const BHS_LENGTH: usize = 48;

/// A Basic Header Segment, encoded.
pub type Header = [u8; BHS_LENGTH];

/// Position and type of one field.
pub(super) trait Locator {
    type Value;
    fn get(&self, header: &Header) -> Self::Value;
    fn put(&self, header: &mut Header, value: Self::Value);
}

/// One byte.
pub(super) struct Byte(pub usize);
/// Two bytes, big-endian.
pub(super) struct Half(pub usize);
/// Four bytes, big-endian.
pub(super) struct Word(pub usize);
/// `N` bytes, unchanged.
pub(super) struct Bytes<const N: usize>(pub usize);
/// One bit of a byte, by its mask.
pub(super) struct Bit(pub usize, pub u8);
/// Several bits of a byte, by their mask.
pub(super) struct Bits(pub usize, pub u8);

impl Locator for Byte {
    type Value = u8;
    fn get(&self, header: &Header) -> u8 {
        header[self.0]
    }
    fn put(&self, header: &mut Header, value: u8) {
        header[self.0] = value;
    }
}

impl Locator for Half {
    type Value = u16;
    fn get(&self, header: &Header) -> u16 {
        u16::from_be_bytes(Bytes::<2>(self.0).get(header))
    }
    fn put(&self, header: &mut Header, value: u16) {
        Bytes::<2>(self.0).put(header, value.to_be_bytes());
    }
}

impl Locator for Word {
    type Value = u32;
    fn get(&self, header: &Header) -> u32 {
        u32::from_be_bytes(Bytes::<4>(self.0).get(header))
    }
    fn put(&self, header: &mut Header, value: u32) {
        Bytes::<4>(self.0).put(header, value.to_be_bytes());
    }
}

impl<const N: usize> Locator for Bytes<N> {
    type Value = [u8; N];
    fn get(&self, header: &Header) -> [u8; N] {
        std::array::from_fn(|at| header[self.0 + at])
    }
    fn put(&self, header: &mut Header, value: [u8; N]) {
        header[self.0..self.0 + N].copy_from_slice(&value);
    }
}

impl Locator for Bit {
    type Value = bool;
    fn get(&self, header: &Header) -> bool {
        header[self.0] & self.1 != 0
    }
    fn put(&self, header: &mut Header, value: bool) {
        if value {
            header[self.0] |= self.1;
        }
    }
}

impl Locator for Bits {
    type Value = u8;
    fn get(&self, header: &Header) -> u8 {
        (header[self.0] & self.1) >> self.1.trailing_zeros()
    }
    fn put(&self, header: &mut Header, value: u8) {
        header[self.0] |= (value << self.1.trailing_zeros()) & self.1;
    }
}

/// Declares a PDU: its opcode, the bits of byte 1 that are always set, and the position of its fields.
macro_rules! pdu {
    (
        $(#[$meta:meta])*
        $name:ident, opcode $opcode:expr, byte 0 $zeroth:expr, byte 1 $first:expr,
        { $( $(#[$field_meta:meta])* $field:ident : $type:ty = $locator:expr, )* }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            $( $(#[$field_meta])* pub $field: $type, )*
        }

        impl $name {
            /// Operation code (RFC 7143 11.2.1.2).
            pub const OPCODE: u8 = $opcode;

            /// Reads the fields. Does not check the opcode; ignores reserved bits.
            pub fn decode(header: &Header) -> Self {
                Self { $( $field: $locator.get(header), )* }
            }

            /// The header, with length fields of zero.
            pub fn encode(&self) -> Header {
                let mut header = [0; BHS_LENGTH];
                header[0] = $opcode | $zeroth;
                header[1] = $first;
                $( $locator.put(&mut header, self.$field); )*
                header
            }
        }
    };
}
pub(super) use pdu;
