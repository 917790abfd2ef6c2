//! Lists: several first-in-first-out lists over one set of numbered items, each item in at most one
//! of them. Everything is O(1), taking an item out of the middle too; the storage is taken once.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

/// Stands for "no item" and "no list".
pub(super) const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Ends {
    head: u32,
    tail: u32,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    prev: u32,
    next: u32,
    list: u32,
}

/// The lists.
#[derive(Debug)]
pub(super) struct Lists {
    ends: Box<[Ends]>,
    links: Box<[Link]>,
}

impl Lists {
    /// `lists` empty lists over the items below `items`.
    pub(super) fn new(lists: usize, items: usize) -> Self {
        let link = Link { prev: NONE, next: NONE, list: NONE };
        Lists {
            ends: core::iter::repeat_n(Ends { head: NONE, tail: NONE }, lists).collect(),
            links: core::iter::repeat_n(link, items).collect(),
        }
    }

    /// The first item of a list.
    pub(super) fn front(&self, list: usize) -> Option<u32> {
        self.ends.get(list).map(|ends| ends.head).filter(|&head| head != NONE)
    }

    /// True if the list has no item.
    pub(super) fn is_empty(&self, list: usize) -> bool {
        self.front(list).is_none()
    }

    /// The item behind `item` in its list.
    pub(super) fn after(&self, item: u32) -> Option<u32> {
        self.links.get(item as usize).map(|link| link.next).filter(|&next| next != NONE)
    }

    /// The list that an item stands in.
    pub(super) fn list_of(&self, item: u32) -> Option<usize> {
        let list = self.links.get(item as usize)?.list;
        if list == NONE { None } else { Some(list as usize) }
    }

    /// Puts an item at the end of a list, out of the one it stood in. One that stands in that list
    /// already keeps its place.
    pub(super) fn push_back(&mut self, list: usize, item: u32) {
        if self.list_of(item) == Some(list) {
            return;
        }
        self.remove(item);
        let Some(ends) = self.ends.get_mut(list) else { return };
        let tail = ends.tail;
        let Some(link) = self.links.get_mut(item as usize) else { return };
        *link = Link { prev: tail, next: NONE, list: list as u32 };
        ends.tail = item;
        match self.links.get_mut(tail as usize) {
            Some(last) => last.next = item,
            None => ends.head = item,
        }
    }

    /// Puts an item at the front of a list, out of the one it stood in.
    pub(super) fn push_front(&mut self, list: usize, item: u32) {
        self.remove(item);
        let Some(ends) = self.ends.get_mut(list) else { return };
        let head = ends.head;
        let Some(link) = self.links.get_mut(item as usize) else { return };
        *link = Link { prev: NONE, next: head, list: list as u32 };
        ends.head = item;
        match self.links.get_mut(head as usize) {
            Some(first) => first.prev = item,
            None => ends.tail = item,
        }
    }

    /// Takes an item out of the list it stands in, if any.
    pub(super) fn remove(&mut self, item: u32) {
        let Some(link) = self.links.get_mut(item as usize) else { return };
        let Link { prev, next, list } = *link;
        let Some(ends) = self.ends.get_mut(list as usize) else { return };
        *link = Link { prev: NONE, next: NONE, list: NONE };
        match self.links.get_mut(prev as usize) {
            Some(before) => before.next = next,
            None => ends.head = next,
        }
        match self.links.get_mut(next as usize) {
            Some(behind) => behind.prev = prev,
            None => ends.tail = prev,
        }
    }

    /// Takes the first item of a list.
    pub(super) fn pop_front(&mut self, list: usize) -> Option<u32> {
        let item = self.front(list)?;
        self.remove(item);
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(lists: &Lists, list: usize) -> [u32; 4] {
        let mut out = [NONE; 4];
        let mut at = lists.front(list);
        for place in &mut out {
            let Some(item) = at else { break };
            *place = item;
            at = lists.after(item);
        }
        out
    }

    #[test]
    fn an_item_is_in_one_list_and_can_leave_from_anywhere() {
        let mut lists = Lists::new(2, 4);
        (0..4).for_each(|item| lists.push_back(0, item));
        lists.push_back(0, 1);
        assert_eq!(items(&lists, 0), [0, 1, 2, 3]);
        lists.remove(1);
        lists.remove(1);
        lists.push_back(1, 3);
        assert_eq!(items(&lists, 0), [0, 2, NONE, NONE]);
        assert_eq!(items(&lists, 1), [3, NONE, NONE, NONE]);
        assert_eq!((lists.list_of(3), lists.list_of(1)), (Some(1), None));
        assert_eq!(lists.pop_front(0), Some(0));
        assert_eq!(lists.pop_front(0), Some(2));
        assert_eq!(lists.pop_front(0), None);
        lists.push_back(0, 1);
        lists.push_back(0, 0);
        assert_eq!(items(&lists, 0), [1, 0, NONE, NONE]);
        assert!(!lists.is_empty(0));
        lists.push_front(1, 2);
        lists.push_front(1, 0);
        assert_eq!(items(&lists, 0), [1, NONE, NONE, NONE]);
        assert_eq!(items(&lists, 1), [0, 2, 3, NONE]);
        lists.push_back(9, 0);
        lists.push_back(0, 9);
        lists.push_front(9, 2);
        lists.push_front(0, 9);
        assert_eq!(items(&lists, 0), [1, NONE, NONE, NONE]);
    }
}
