// SPDX-License-Identifier: Apache-2.0
//! Buffers that carry data between the initiator and the volume.

use std::cell::RefCell;
use std::fmt;

use bytemuck::{Pod, Zeroable, zeroed_vec};

/// Alignment and unit of allocation: `O_DIRECT` needs the logical block of the device, at most 4096 (open(2)).
pub const BUFFER_ALIGNMENT: usize = 4096;

/// Upper limits of a reactor thread's cache of freed memory: bytes, and number of sizes.
const SPARE_BYTES_PER_THREAD: usize = 8 << 20;
const MOST_SIZES: usize = 16;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(4096))]
struct Page([u8; BUFFER_ALIGNMENT]);

/// Bytes in page-aligned memory, ready for `O_DIRECT`.
///
/// A thread caches the memory of dropped buffers. The content of a new buffer is therefore unspecified, but never from another
/// process. [`Buffer::zeroed`] and [`Buffer::from`] set the content.
pub struct Buffer {
    pages: Vec<Page>,
    length: usize,
}

thread_local! {
    static SPARE: RefCell<Spare> = const { RefCell::new(Spare { bytes: 0, sizes: Vec::new() }) };
}

/// Freed memory of one thread, by size. The most recently used size is last.
struct Spare {
    bytes: usize,
    sizes: Vec<OneSize>,
}

struct OneSize {
    pages: usize,
    spare: Vec<Vec<Page>>,
}

impl Spare {
    /// Finds the list of a size, and moves it to the end.
    fn size(&mut self, pages: usize) -> Option<&mut OneSize> {
        let at = self.sizes.iter().rposition(|size| size.pages == pages)?;
        if at + 1 < self.sizes.len() {
            let size = self.sizes.remove(at);
            self.sizes.push(size);
        }
        self.sizes.last_mut()
    }

    fn take(&mut self, pages: usize) -> Option<Vec<Page>> {
        let taken = self.size(pages)?.spare.pop()?;
        self.bytes -= pages * BUFFER_ALIGNMENT;
        Some(taken)
    }

    fn keep(&mut self, memory: Vec<Page>) {
        let pages = memory.len();
        let bytes = pages * BUFFER_ALIGNMENT;
        if bytes == 0 || bytes > SPARE_BYTES_PER_THREAD {
            return;
        }
        match self.size(pages) {
            Some(size) => size.spare.push(memory),
            None => self.sizes.push(OneSize {
                pages,
                spare: vec![memory],
            }),
        }
        self.bytes += bytes;
        // Evict the least recently used sizes first.
        while self.bytes > SPARE_BYTES_PER_THREAD || self.sizes.len() > MOST_SIZES {
            let too_many = self.sizes.len() > MOST_SIZES;
            let oldest = &mut self.sizes[0];
            let dropped = if too_many {
                std::mem::take(&mut oldest.spare)
            } else {
                oldest.spare.pop().into_iter().collect()
            };
            self.bytes -= dropped.len() * oldest.pages * BUFFER_ALIGNMENT;
            if oldest.spare.is_empty() {
                self.sizes.remove(0);
            }
        }
    }
}

impl Buffer {
    /// A buffer of `length` bytes with unspecified content. The caller must overwrite all of it.
    pub fn new(length: usize) -> Self {
        let count = length.div_ceil(BUFFER_ALIGNMENT);
        let pages = SPARE
            .with_borrow_mut(|spare| spare.take(count))
            .unwrap_or_else(|| zeroed_vec(count));
        Self { pages, length }
    }

    /// A buffer of `length` zero bytes.
    pub fn zeroed(length: usize) -> Self {
        let mut buffer = Self::new(length);
        buffer.fill(0);
        buffer
    }

    /// Whether every byte is 0.
    pub fn is_zero(&self) -> bool {
        is_zero(self)
    }

    /// Shortens the buffer to its first `length` bytes. If `length` exceeds the buffer, nothing changes.
    pub fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
    }
}

/// Whether every byte is 0. Stops at the first other byte.
pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    const LINE: usize = 64;
    let (lines, rest) = bytes.split_at(bytes.len() - bytes.len() % LINE);
    // No branch per byte, so that the compiler can use vector instructions.
    let zero = |line: &[u8]| line.iter().fold(0, |all, byte| all | byte) == 0;
    lines.chunks_exact(LINE).all(zero) && zero(rest)
}

impl From<&[u8]> for Buffer {
    fn from(bytes: &[u8]) -> Self {
        let mut buffer = Self::new(bytes.len());
        buffer.copy_from_slice(bytes);
        buffer
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let pages = std::mem::take(&mut self.pages);
        // A thread that is ending has dropped its cache: then this frees the memory.
        let _ = SPARE.try_with(|spare| spare.borrow_mut().keep(pages));
    }
}

impl std::ops::Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.pages)[..self.length]
    }
}

impl std::ops::DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.pages)[..self.length]
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Buffer({} bytes)", self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_page_aligned_and_of_the_requested_length() {
        for length in [0, 1, 512, 4096, 4097, 1 << 20] {
            let buffer = Buffer::new(length);
            assert_eq!(buffer.len(), length);
            assert_eq!(buffer.as_ptr() as usize % BUFFER_ALIGNMENT, 0);
        }
    }

    #[test]
    fn zeroed_is_zero_though_the_memory_was_used_before() {
        let mut used = Buffer::new(8192);
        used.fill(0xa5);
        drop(used);
        assert!(Buffer::zeroed(8192).iter().all(|&byte| byte == 0));
    }

    #[test]
    fn any_nonzero_byte_is_found() {
        for length in [0, 1, 63, 64, 65, 512, 4099] {
            assert!(Buffer::zeroed(length).is_zero());
            for at in [0, length / 2, length.saturating_sub(1)] {
                let mut buffer = Buffer::zeroed(length);
                if let Some(byte) = buffer.get_mut(at) {
                    *byte = 0x80;
                    assert!(!buffer.is_zero(), "{at} of {length}");
                }
            }
        }
    }

    #[test]
    fn recent_sizes_replace_unused_ones() {
        drop((0..64).map(|_| Buffer::new(1 << 20)).collect::<Vec<_>>());
        let address = {
            let buffer = Buffer::new(4096);
            buffer.as_ptr()
        };
        assert_eq!(Buffer::new(4096).as_ptr(), address, "the memory is reused");
        for pages in 2..100 {
            drop(Buffer::new(pages * BUFFER_ALIGNMENT));
        }
        SPARE.with_borrow(|spare| {
            let cached = |size: &OneSize| size.pages * size.spare.len() * BUFFER_ALIGNMENT;
            assert_eq!(spare.bytes, spare.sizes.iter().map(cached).sum::<usize>());
            assert!(spare.bytes <= SPARE_BYTES_PER_THREAD);
            assert!(spare.sizes.len() <= MOST_SIZES);
        });
    }

    #[test]
    fn spare_memory_is_bounded() {
        let many: Vec<_> = (0..64).map(|_| Buffer::new(1 << 20)).collect();
        drop(many);
        assert!(SPARE.with_borrow(|spare| spare.bytes) <= SPARE_BYTES_PER_THREAD);
    }

    #[test]
    fn truncate_never_lengthens() {
        let mut buffer = Buffer::from(&b"abcdef"[..]);
        buffer.truncate(10);
        assert_eq!(&buffer[..], b"abcdef");
        buffer.truncate(2);
        assert_eq!(&buffer[..], b"ab");
    }
}
