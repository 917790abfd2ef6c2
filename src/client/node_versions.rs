//! NodeVersions: which versions of each API a broker serves, and the one to use.

use crate::protocol::ApiKey;
use crate::protocol::declare::Message;
use crate::protocol::messages::{
    ApiVersionsRequest, ApiVersionsResponse, CreateTopicsRequest, DeleteTopicsRequest,
    FetchRequest, InitProducerIdRequest, ListOffsetsRequest, MetadataRequest,
    OffsetForLeaderEpochRequest, ProduceRequest,
};
use core::ops::RangeInclusive;

const KEYS: usize = ApiKey::LAST.0 as usize + 1;

/// What one broker serves, by API key.
#[derive(Debug)]
pub(super) struct NodeVersions {
    /// Smallest and largest version; an empty range where the broker does not have the API.
    served: Box<[(i16, i16)]>,
}

impl NodeVersions {
    pub(super) fn new() -> Self {
        NodeVersions { served: core::iter::repeat_n((0, -1), KEYS).collect() }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.served.fill((0, -1));
    }

    /// Takes over a broker's answer. Keys that Kafka has not given out are passed over.
    pub(super) fn learn(&mut self, answer: &ApiVersionsResponse<'_>) {
        self.clear();
        for api in answer.api_keys {
            let slot = usize::try_from(api.api_key).ok().and_then(|i| self.served.get_mut(i));
            if let Some(slot) = slot {
                *slot = (api.min_version, api.max_version);
            }
        }
    }

    /// The highest version that the broker serves and `range` holds.
    pub(super) fn highest(&self, key: ApiKey, range: RangeInclusive<i16>) -> Option<i16> {
        let &(min, max) = self.served.get(usize::try_from(key.0).ok()?)?;
        let (low, high) = (min.max(*range.start()), max.min(*range.end()));
        if low <= high { Some(high) } else { None }
    }
}

/// The versions of an API that kloop declares and this client speaks.
///
/// Produce stops at 12 and Fetch at 12: from 13 on they name topics by id only.
pub(super) fn spoken(key: ApiKey) -> Option<RangeInclusive<i16>> {
    Some(match key {
        ApiKey::PRODUCE => *ProduceRequest::VERSIONS.start()..=12,
        ApiKey::FETCH => *FetchRequest::VERSIONS.start()..=12,
        ApiKey::LIST_OFFSETS => ListOffsetsRequest::VERSIONS,
        ApiKey::METADATA => MetadataRequest::VERSIONS,
        ApiKey::API_VERSIONS => ApiVersionsRequest::VERSIONS,
        ApiKey::CREATE_TOPICS => CreateTopicsRequest::VERSIONS,
        ApiKey::DELETE_TOPICS => DeleteTopicsRequest::VERSIONS,
        ApiKey::INIT_PRODUCER_ID => InitProducerIdRequest::VERSIONS,
        ApiKey::OFFSET_FOR_LEADER_EPOCH => OffsetForLeaderEpochRequest::VERSIONS,
        _ => return None,
    })
}

/// The first version of an API whose broker leaves throttling to the client (KIP-219): before it,
/// the broker has held its answer back already.
pub(super) fn first_client_throttled(key: ApiKey) -> i16 {
    match key {
        ApiKey::PRODUCE | ApiKey::METADATA => 6,
        ApiKey::FETCH => 8,
        ApiKey::LIST_OFFSETS => 3,
        ApiKey::API_VERSIONS => 2,
        ApiKey::INIT_PRODUCER_ID => 1,
        _ => i16::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Writer;
    use crate::protocol::declare::Array;
    use crate::protocol::messages::ApiVersion;

    fn learned(apis: &'static [(i16, i16, i16)]) -> NodeVersions {
        let emit = move |out: &mut crate::protocol::ArrayWriter<'_, '_, ApiVersion>| {
            for &(api_key, min_version, max_version) in apis {
                out.push(&ApiVersion { api_key, min_version, max_version });
            }
        };
        let answer = ApiVersionsResponse {
            api_keys: Array::emit(apis.len(), &emit),
            ..ApiVersionsResponse::default()
        };
        let mut buf = [0; 512];
        let mut w = Writer::new(&mut buf);
        answer.encode(&mut w, 0);
        let n = w.finish().unwrap();
        let mut versions = NodeVersions::new();
        versions.learn(&ApiVersionsResponse::decode(&buf[..n], 0).unwrap());
        versions
    }

    #[test]
    fn the_highest_common_version() {
        let versions = learned(&[(0, 3, 11), (1, 20, 30), (3, 0, 2), (1000, 0, 1), (-3, 0, 1)]);
        assert_eq!(versions.highest(ApiKey::PRODUCE, 3..=12), Some(11));
        assert_eq!(versions.highest(ApiKey::PRODUCE, 3..=7), Some(7));
        assert_eq!(versions.highest(ApiKey::PRODUCE, 12..=13), None);
        assert_eq!(versions.highest(ApiKey::FETCH, 4..=12), None);
        assert_eq!(versions.highest(ApiKey::METADATA, 0..=13), Some(2));
        assert_eq!(versions.highest(ApiKey::INIT_PRODUCER_ID, 0..=5), None);
        assert_eq!(versions.highest(ApiKey(-1), 0..=5), None);
        assert_eq!(spoken(ApiKey::FETCH), Some(4..=12));
        assert_eq!(spoken(ApiKey::JOIN_GROUP), None);
    }
}
