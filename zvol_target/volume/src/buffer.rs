//! Memory that data travels in between the initiator and the volume.

use std::cell::RefCell;
use std::fmt;

use bytemuck::{Pod, Zeroable};

/// Alignment and unit of allocation: `O_DIRECT` wants the logical block of the device, at most 4096 (open(2)).
pub const BUFFER_ALIGNMENT: usize = 4096;

/// Most bytes a reactor thread keeps for reuse.
const SPARE_BYTES_PER_THREAD: usize = 16 << 20;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(4096))]
struct Page([u8; BUFFER_ALIGNMENT]);

/// Bytes in page-aligned memory, ready for `O_DIRECT`.
///
/// Memory of a dropped buffer is kept by its thread and reused; a new buffer's content is therefore unspecified (never
/// that of another process) unless [`Buffer::zeroed`] or [`Buffer::from`] made it.
pub struct Buffer {
    pages: Vec<Page>,
    length: usize,
}

thread_local! {
    static SPARE: RefCell<Spare> = const { RefCell::new(Spare { bytes: 0, pages: Vec::new() }) };
}

struct Spare {
    bytes: usize,
    pages: Vec<Vec<Page>>,
}

impl Spare {
    fn take(&mut self, pages: usize) -> Option<Vec<Page>> {
        let at = self.pages.iter().rposition(|spare| spare.len() == pages)?;
        self.bytes -= pages * BUFFER_ALIGNMENT;
        Some(self.pages.swap_remove(at))
    }

    fn keep(&mut self, pages: Vec<Page>) {
        let bytes = pages.len() * BUFFER_ALIGNMENT;
        if bytes > 0 && self.bytes + bytes <= SPARE_BYTES_PER_THREAD {
            self.bytes += bytes;
            self.pages.push(pages);
        }
    }
}

impl Buffer {
    /// A buffer of `length` bytes with unspecified content, to be overwritten whole by its taker.
    pub fn new(length: usize) -> Self {
        let count = length.div_ceil(BUFFER_ALIGNMENT);
        let pages = SPARE
            .with_borrow_mut(|spare| spare.take(count))
            .unwrap_or_else(|| vec![Page::zeroed(); count]);
        Self { pages, length }
    }

    /// A buffer of `length` zero bytes.
    pub fn zeroed(length: usize) -> Self {
        let mut buffer = Self::new(length);
        buffer.fill(0);
        buffer
    }

    /// Keeps the first `length` bytes; longer than the buffer changes nothing.
    pub fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
    }
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
        // A thread that is ending has no spare list any more: then the memory is simply freed.
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
    fn is_page_aligned_and_of_the_length_asked_for() {
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
