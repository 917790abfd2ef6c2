//! Scratch: the working tables of whoever runs handlers, one set per thread. They are taken once,
//! because handlers do not allocate.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

use super::batch_reader::BatchReader;
use super::core::Core;
use super::topics::Topic;
use crate::error::Error;
use crate::net::{SendBuilder, SharedLease};
use crate::protocol::ErrorCode;
use crate::protocol::writer::Cut;
use crate::sync::Arc;

/// A partition's part of an answer: what Produce, Fetch, ListOffsets and OffsetForLeaderEpoch say
/// of one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Part {
    /// What went wrong.
    pub error: ErrorCode,
    /// What is wrong, in words.
    pub message: Option<&'static str>,
    /// The record in the batch that is to blame; -1 if it is not one record.
    pub record: i32,
    /// A base offset, a high watermark, an offset found, or an end offset.
    pub offset: i64,
    /// The broker's time, or the timestamp found.
    pub timestamp: i64,
    /// The log's start.
    pub log_start: i64,
    /// Bytes of records.
    pub bytes: usize,
    /// Views that hold them.
    pub views: usize,
    /// The reader's log and this one part at `offset`.
    pub diverges: bool,
}

/// A topic that a Metadata answer tells of.
#[derive(Debug)]
pub(crate) enum Described {
    /// It exists.
    Topic(Arc<Topic>),
    /// It does not, and this is why; its name and id are the request's.
    Error(ErrorCode),
    /// It was asked for twice.
    Again,
}

/// Partitions that were appended to since the last look. The one road by which an append reaches
/// requests that wait for it: in reactor mode such a list is posted to each processor.
#[derive(Debug)]
pub(crate) struct Appended {
    list: Box<[u32]>,
    len: usize,
    listed: Box<[bool]>,
}

impl Appended {
    fn new(partitions: usize) -> Self {
        Appended {
            list: (0..partitions).map(|_| 0).collect(),
            len: 0,
            listed: (0..partitions).map(|_| false).collect(),
        }
    }

    /// Notes a partition, once.
    pub(crate) fn note(&mut self, partition: u32) {
        let Some(listed) = self.listed.get_mut(partition as usize) else { return };
        if !core::mem::replace(listed, true)
            && let Some(place) = self.list.get_mut(self.len)
        {
            *place = partition;
            self.len += 1;
        }
    }

    /// True if none was noted.
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Takes one that was noted.
    pub(crate) fn take(&mut self) -> Option<u32> {
        self.len = self.len.checked_sub(1)?;
        let partition = *self.list.get(self.len)?;
        if let Some(listed) = self.listed.get_mut(partition as usize) {
            *listed = false;
        }
        Some(partition)
    }
}

/// Marks partitions that were met in one request.
#[derive(Debug)]
pub(crate) struct Met {
    round: u32,
    last: Box<[u32]>,
}

impl Met {
    /// Forgets all marks.
    pub(crate) fn begin(&mut self) {
        self.round = self.round.wrapping_add(1);
        if self.round == 0 {
            self.last.fill(0);
            self.round = 1;
        }
    }

    /// Marks a partition; says whether it was marked before.
    pub(crate) fn again(&mut self, partition: u32) -> bool {
        let round = self.round;
        let last = self.last.get_mut(partition as usize);
        last.is_some_and(|last| core::mem::replace(last, round) == round)
    }
}

/// The working tables.
#[derive(Debug)]
pub(crate) struct Scratch {
    /// Parts of the answer, in the order of the request's partitions.
    pub parts: Box<[Part]>,
    /// Topics of a Metadata answer, in the order of the request.
    pub topics: Box<[Option<Described>]>,
    /// Views that a Fetch answer sends.
    pub views: [Option<SharedLease>; SendBuilder::MAX_PIECES],
    /// Where they go in the answer.
    pub cuts: [Cut; SendBuilder::MAX_PIECES],
    /// Partitions that a request which parks waits for.
    pub watch: Watch,
    /// Partitions that were appended to.
    pub appended: Appended,
    /// Partitions met in one request.
    pub met: Met,
    /// Looks into compressed batches.
    pub batch_reader: BatchReader,
}

/// Partitions that a request which parks waits for.
#[derive(Debug)]
pub(crate) struct Watch {
    list: Box<[u32]>,
    len: usize,
}

impl Watch {
    /// Begins a new list.
    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    /// Adds a partition.
    pub(crate) fn add(&mut self, partition: u32) {
        if let Some(place) = self.list.get_mut(self.len) {
            *place = partition;
            self.len += 1;
        }
    }

    /// The partitions.
    pub(crate) fn get(&self) -> &[u32] {
        self.list.get(..self.len).unwrap_or(&[])
    }
}

impl Scratch {
    /// What whoever runs handlers needs.
    ///
    /// # Errors
    /// [`Error::NoMemory`] for the room that batches are inflated in.
    pub(crate) fn new(core: &Core) -> Result<Self, Error> {
        let batch_reader = BatchReader::new(core.inflate_max(), core.settings.prefault)?;
        let (topics, partitions) = (core.topics.max_topics(), core.topics.max_partitions());
        Ok(Scratch { batch_reader, ..Scratch::tables(topics, partitions) })
    }

    /// Tables for requests that name up to twice as many partitions as there can be, and up to
    /// twice as many topics: more than a client with any sense asks for.
    fn tables(max_topics: usize, max_partitions: usize) -> Self {
        let parts = (2 * max_partitions).max(1024);
        Scratch {
            parts: (0..parts).map(|_| Part::default()).collect(),
            topics: (0..(2 * max_topics).max(1024)).map(|_| None).collect(),
            views: [const { None }; SendBuilder::MAX_PIECES],
            cuts: [Cut { at: 0, len: 0 }; SendBuilder::MAX_PIECES],
            watch: Watch { list: (0..parts).map(|_| 0).collect(), len: 0 },
            appended: Appended::new(max_partitions),
            met: Met { round: 0, last: (0..max_partitions).map(|_| 0).collect() },
            batch_reader: BatchReader::none(),
        }
    }

    /// What a processor needs, whose requests are run by others: the lists of partitions.
    pub(crate) fn without_handlers(max_partitions: usize) -> Self {
        Scratch {
            parts: Box::new([]),
            topics: Box::new([]),
            met: Met { round: 0, last: Box::new([]) },
            ..Scratch::tables(0, max_partitions)
        }
    }

    /// Lets go of what the last request left here.
    pub(crate) fn clear(&mut self) {
        self.views.iter_mut().for_each(|view| *view = None);
        self.watch.clear();
    }
}
