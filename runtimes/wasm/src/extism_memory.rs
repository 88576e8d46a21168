//! Extism memory, through which the host and a plug-in exchange texts. It belongs to the host, so that no plug-in can forge
//! its metadata.

use std::collections::{BTreeMap, BTreeSet};

use super::budget::{BYTES_PER_CHECK, PluginBudget};
use metier_core::error::{ErrorKind, Result, SkillError};

/// Blocks by offset; offset 0 means that there is no block.
pub(super) struct ExtismMemory {
    bytes: Vec<u8>,
    blocks: BTreeMap<u64, Block>,
    /// Capacities of free blocks by offset; neighbours are merged.
    free: BTreeMap<u64, u64>,
    /// The same by capacity, then offset, to find the smallest block that is large enough at once.
    by_capacity: BTreeSet<(u64, u64)>,
}

struct Block {
    length: u64,
    capacity: u64,
}

/// Capacities are multiples of this, so that the host's record of a block is never larger than the block.
const CAPACITY_UNIT: u64 = 64;

/// The maximum number of blocks and of gaps between them: all that exists when a run is over must be freed within its time.
const MAX_BLOCKS: usize = 1 << 20;

impl ExtismMemory {
    pub(super) fn new() -> Self {
        // No block is at offset 0, since that means that there is none.
        Self {
            bytes: vec![0; 64],
            blocks: BTreeMap::new(),
            free: BTreeMap::new(),
            by_capacity: BTreeSet::new(),
        }
    }

    /// Allocates a block of this length; fails with `memory` if the budget is too small.
    pub(super) fn allocate(&mut self, length: u64, budget: &mut PluginBudget) -> Result<u64> {
        if length == 0 {
            return Ok(0);
        }
        if self.blocks.len() + self.free.len() >= MAX_BLOCKS {
            let sentence =
                format!("the plug-in keeps more blocks of Extism memory than the {MAX_BLOCKS} it may");
            return Err(
                SkillError::new(ErrorKind::Memory, sentence).with_help("free those it needs no longer")
            );
        }
        let capacity = length.checked_next_multiple_of(CAPACITY_UNIT).unwrap_or(u64::MAX);
        let offset = match self.reuse_free(capacity) {
            Some(offset) => offset,
            None => self.append(capacity, budget)?,
        };
        self.blocks.insert(offset, Block { length, capacity });
        Ok(offset)
    }

    /// Allocates a block with this content.
    pub(super) fn store(&mut self, content: &[u8], budget: &mut PluginBudget) -> Result<u64> {
        let offset = self.allocate(content.len() as u64, budget)?;
        if let Some(block) = self.slice_mut(offset, content.len() as u64) {
            for (to, from) in block.chunks_mut(BYTES_PER_CHECK).zip(content.chunks(BYTES_PER_CHECK)) {
                budget.check_cancel()?;
                to.copy_from_slice(from);
            }
        }
        Ok(offset)
    }

    /// Frees the block at this offset; does nothing if there is none.
    pub(super) fn release(&mut self, offset: u64) {
        let Some(block) = self.blocks.remove(&offset) else { return };
        let mut capacity = block.capacity;
        let mut offset = offset;
        let before = self.free.range(..offset).next_back().map(|(before, room)| (*before, *room));
        if let Some(next) = self.remove_free(offset + capacity) {
            capacity += next;
        }
        if let Some((before, room)) = before.filter(|(before, room)| before + room == offset) {
            self.remove_free(before);
            (offset, capacity) = (before, room + capacity);
        }
        self.insert_free(offset, capacity);
    }

    fn insert_free(&mut self, offset: u64, capacity: u64) {
        self.free.insert(offset, capacity);
        self.by_capacity.insert((capacity, offset));
    }

    fn remove_free(&mut self, offset: u64) -> Option<u64> {
        let capacity = self.free.remove(&offset)?;
        self.by_capacity.remove(&(capacity, offset));
        Some(capacity)
    }

    /// The length of the block at this offset; 0 if there is none.
    pub(super) fn length(&self, offset: u64) -> u64 {
        self.blocks.get(&offset).map_or(0, |block| block.length)
    }

    /// The content of the block at this offset.
    pub(super) fn block(&self, offset: u64) -> Option<&[u8]> {
        self.slice(offset, self.blocks.get(&offset)?.length)
    }

    /// These bytes, if they are inside a block.
    pub(super) fn slice(&self, offset: u64, length: u64) -> Option<&[u8]> {
        let start = usize::try_from(offset).ok()?;
        self.bytes.get(start..start.checked_add(usize::try_from(length).ok()?)?)
    }

    /// Reads this many bytes as a little-endian number; 0 if they are not all there, as in Extism.
    pub fn load(&self, offset: u64, length: usize) -> u64 {
        let mut number = [0; 8];
        if let Some(bytes) = self.slice(offset, length as u64) {
            number[..length].copy_from_slice(bytes);
        }
        u64::from_le_bytes(number)
    }

    /// Writes the lowest bytes of a number, in little-endian order; nothing if not all have a place, as in Extism.
    pub(super) fn save(&mut self, offset: u64, length: usize, number: u64) {
        if let Some(bytes) = self.slice_mut(offset, length as u64) {
            bytes.copy_from_slice(&number.to_le_bytes()[..length]);
        }
    }

    /// Frees everything.
    pub(super) fn reset(&mut self, budget: &mut PluginBudget) {
        let empty = Self::new();
        budget.refund((self.bytes.len() - empty.bytes.len()) as u64);
        *self = empty;
    }

    fn slice_mut(&mut self, offset: u64, length: u64) -> Option<&mut [u8]> {
        let start = usize::try_from(offset).ok()?;
        self.bytes.get_mut(start..start.checked_add(usize::try_from(length).ok()?)?)
    }

    /// Takes the smallest free block that is large enough; the rest of it stays free.
    fn reuse_free(&mut self, capacity: u64) -> Option<u64> {
        let (room, offset) = *self.by_capacity.range((capacity, 0)..).next()?;
        self.remove_free(offset);
        if room > capacity {
            self.insert_free(offset + capacity, room - capacity);
        }
        Some(offset)
    }

    fn append(&mut self, capacity: u64, budget: &mut PluginBudget) -> Result<u64> {
        budget.spend(capacity)?;
        let offset = self.bytes.len();
        let end = usize::try_from(capacity).ok().and_then(|capacity| offset.checked_add(capacity));
        let no_memory =
            || SkillError::new(ErrorKind::Memory, "this machine has no more memory for the plug-in");
        let end = end.ok_or_else(no_memory)?;
        self.bytes.try_reserve(end - offset).map_err(|_| no_memory())?;
        while self.bytes.len() < end {
            budget.check_cancel()?;
            self.bytes.resize(end.min(self.bytes.len() + BYTES_PER_CHECK), 0);
        }
        Ok(offset as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget() -> PluginBudget {
        PluginBudget::new(1 << 20, 0, &metier_core::policy::CancelToken::new()).unwrap()
    }

    #[test]
    fn what_is_stored_is_found_by_its_offset_alone() {
        let (mut memory, mut budget) = (ExtismMemory::new(), budget());
        let (first, second) = (memory.store(b"one", &mut budget), memory.store(b"three", &mut budget));
        let (first, second) = (first.unwrap(), second.unwrap());
        assert_eq!((memory.block(first), memory.block(second)), (Some(&b"one"[..]), Some(&b"three"[..])));
        assert_eq!((memory.length(second), memory.length(second + 1), memory.length(0)), (5, 0, 0));
        assert_eq!(memory.store(b"", &mut budget).unwrap(), 0);
    }

    #[test]
    fn freed_room_is_used_again_and_costs_nothing() {
        let (mut memory, mut budget) = (ExtismMemory::new(), budget());
        for round in 0..10_000_u64 {
            let blocks = [100, 60_000, 1 + round % 500].map(|length| memory.allocate(length, &mut budget));
            for block in blocks {
                memory.release(block.unwrap());
            }
        }
        assert!(budget.spend(900 << 10).is_ok(), "the budget was not spent by what was given back");
    }

    #[test]
    fn more_than_the_budget_is_refused_and_numbers_do_not_wrap() {
        let (mut memory, mut budget) = (ExtismMemory::new(), budget());
        for length in [1 << 21, u64::MAX, u64::MAX - 63, 1 << 63] {
            assert_eq!(memory.allocate(length, &mut budget).unwrap_err().kind(), ErrorKind::Memory);
        }
        for offset in [u64::MAX, u64::MAX - 3, 1 << 40] {
            memory.save(offset, 8, 1);
            assert_eq!(memory.load(offset, 8), 0);
            assert!(memory.slice(offset, u64::MAX).is_none() && memory.slice(1, u64::MAX).is_none());
            memory.release(offset);
        }
    }

    #[test]
    fn numbers_are_little_endian_and_stay_in_their_width() {
        let (mut memory, mut budget) = (ExtismMemory::new(), budget());
        let at = memory.store(&[1; 16], &mut budget).unwrap();
        memory.save(at, 1, 0x1FF);
        assert_eq!(memory.load(at, 8), 0x0101_0101_0101_01FF);
        assert_eq!(memory.load(at + 1, 1), 1);
    }
}
