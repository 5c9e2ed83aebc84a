//! Which samples are of which heaps, by name.

use thiserror::Error;

use crate::heaps::UNNAMED;
use crate::layout;
use crate::snapshot::Snapshot;

/// Names that an error lists.
const LISTED: usize = 20;

/// No heap of that name was sampled.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum UnknownHeap {
    #[error(
        "no block of a heap was sampled: the program has no heaps (fh_heap_new), or took little from them"
    )]
    None,
    #[error("no block of a heap called {name:?} was sampled; there are: {known}")]
    Other { name: String, known: String },
}

impl Snapshot {
    /// The names from the outermost heap to the one of this entry; none: plain blocks.
    pub fn heap_path(&self, entry: u32) -> Option<String> {
        if entry == 0 {
            return None;
        }
        let names = &self.profile.heap_names;
        let mut path = Vec::new();
        let mut at = entry as usize;
        // Each parent is before its children (`mend_heap_names`), so this ends.
        while at != 0 {
            let Some(heap) = names.get(at) else {
                return Some(UNNAMED.to_owned());
            };
            path.push(shown(heap));
            at = heap.parent as usize;
        }
        path.reverse();
        Some(path.join("/"))
    }

    /// The entries of heaps with that name or path, and of all below them.
    fn entries_of(&self, name: &str) -> Vec<bool> {
        let names = &self.profile.heap_names;
        let mut wanted = vec![false; names.len()];
        for at in 1..names.len() {
            let above = wanted[names[at].parent as usize];
            let path = || self.heap_path(at as u32);
            wanted[at] = above || shown(&names[at]) == name || path().as_deref() == Some(name);
        }
        wanted
    }

    /// Keeps what was sampled of heaps with that name, or with that path of names, and of all heaps below them.
    pub fn keep_heaps(&mut self, name: &str) -> Result<(), UnknownHeap> {
        let wanted = self.entries_of(name);
        let no_room = name == UNNAMED;
        let is_wanted = |heap: u32| match wanted.get(heap as usize) {
            Some(wanted) => *wanted,
            None => no_room && heap == layout::HEAP_NO_ROOM,
        };
        if !self.profile.sites.iter().any(|site| is_wanted(site.heap)) {
            return Err(self.unknown(name));
        }
        let keeps: Vec<bool> = self
            .profile
            .sites
            .iter()
            .map(|site| is_wanted(site.heap))
            .collect();
        let kept = |site: u32| keeps.get(site as usize).copied().unwrap_or(false);
        self.sites.retain(|site| kept(site.number));
        self.samples.retain(|sample| kept(sample.site));
        self.profile.samples.retain(|sample| kept(sample.site));
        self.profile.traces.retain(|trace| kept(trace.site));
        for (site, keep) in self.profile.sites.iter_mut().zip(&keeps) {
            if !keep {
                *site = layout::Site {
                    node: site.node,
                    heap: site.heap,
                    ..bytemuck::Zeroable::zeroed()
                };
            }
        }
        Ok(())
    }

    fn unknown(&self, name: &str) -> UnknownHeap {
        let mut known: Vec<String> = self
            .sites
            .iter()
            .filter_map(|site| self.heap_path(site.heap))
            .collect();
        known.sort();
        known.dedup();
        if known.is_empty() {
            return UnknownHeap::None;
        }
        let more = known.len().saturating_sub(LISTED);
        known.truncate(LISTED);
        if more != 0 {
            known.push(format!("and {more} more"));
        }
        // Names are the program's: what would move a terminal's cursor is not printed.
        let plain = |letter: char| if letter.is_control() { '�' } else { letter };
        UnknownHeap::Other {
            name: name.to_owned(),
            known: known.join(", ").chars().map(plain).collect(),
        }
    }
}

fn shown(heap: &layout::Heap) -> String {
    let name = layout::text(&heap.name);
    if name.is_empty() {
        UNNAMED.to_owned()
    } else {
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::View;
    use crate::testing::ProfileBuilder;

    /// Plain blocks, and those of a tenant, of its query, and of another query.
    fn profile() -> ProfileBuilder {
        let mut profile = ProfileBuilder::new(1);
        let tenant = profile.heap_name("tenant", 0);
        let below = profile.heap_name("query", tenant);
        let other = profile.heap_name("query", 0);
        let plain = profile.site(&[0x100]);
        profile.allocate(plain, 1, 0);
        for (heap, size) in [(tenant, 10), (below, 100), (other, 1000)] {
            let site = profile.site_in(&[0x100], heap);
            profile.allocate(site, size, 1);
            let freed = profile.allocate(site, size, 1);
            profile.free(freed, 1);
        }
        profile
    }

    fn live(name: &str) -> f64 {
        let mut snapshot = profile().snapshot();
        snapshot.keep_heaps(name).unwrap();
        let samples: u64 = snapshot.samples.iter().map(|sample| sample.size).sum();
        assert_eq!(snapshot.total(View::Live).bytes, samples as f64);
        assert_eq!(snapshot.total(View::Allocated).bytes, 2.0 * samples as f64);
        samples as f64
    }

    #[test]
    fn a_heap_is_meant_with_all_below_it_by_name_or_path() {
        assert_eq!(live("tenant"), 110.0);
        assert_eq!(live("query"), 1100.0);
        assert_eq!(live("tenant/query"), 100.0);
        assert_eq!(profile().snapshot().total(View::Live).bytes, 1111.0);
    }

    #[test]
    fn a_name_that_is_not_there_is_an_error_that_lists_those_that_are() {
        let said = profile().snapshot().keep_heaps("quary").unwrap_err();
        assert_eq!(
            said.to_string(),
            "no block of a heap called \"quary\" was sampled; there are: query, tenant, tenant/query"
        );
        let mut plain = ProfileBuilder::new(1);
        let site = plain.site(&[0x100]);
        plain.allocate(site, 1, 0);
        assert_eq!(plain.snapshot().keep_heaps("query"), Err(UnknownHeap::None));
    }

    #[test]
    fn a_name_is_listed_without_what_a_terminal_obeys() {
        let mut profile = ProfileBuilder::new(1);
        let red = profile.heap_name("a\n\u{1b}[31mred", 0);
        let site = profile.site_in(&[0x100], red);
        profile.allocate(site, 10, 1);
        let said = profile.snapshot().keep_heaps("b").unwrap_err().to_string();
        assert!(said.ends_with("there are: a��[31mred"), "{said:?}");
    }

    #[test]
    fn a_file_of_before_heaps_had_names_is_read() {
        let mut bytes = profile().bytes();
        let header = size_of::<layout::Header>() - size_of::<layout::Section>();
        let place = std::mem::offset_of!(layout::Header, header_bytes);
        bytes[place..place + 4].copy_from_slice(&(header as u32).to_le_bytes());
        bytes[header..header + size_of::<layout::Section>()].fill(0);
        let snapshot = Snapshot::read(&bytes[..], crate::testing::reading()).unwrap();
        assert_eq!(snapshot.total(View::Live).bytes, 1111.0);
    }

    #[test]
    fn damaged_names_harm_nothing() {
        let mut damaged = profile();
        damaged.change(|profile| {
            profile.heap_names[1].parent = 3;
            profile.sites[2].heap = 99;
        });
        let mut snapshot = damaged.snapshot();
        assert!(
            snapshot
                .warnings
                .iter()
                .any(|said| said.text.starts_with("2 names of heaps"))
        );
        snapshot.keep_heaps(UNNAMED).unwrap();
        assert_eq!(snapshot.total(View::Live).bytes, 10.0);
    }
}
