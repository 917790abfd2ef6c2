//! ApiVersions: what this broker serves. Served with the host's APIs, which are advertised with the
//! versions of Kafka 4.3.
//!
//! Nothing is advertised that is not served, with one exception (Produce, see the table). So
//! without a host that serves groups FindCoordinator is missing, and librdkafka, which looks for
//! its version 0, then sends what was to be LZ4 uncompressed.

use crate::broker::answer::Answer;
use crate::broker::core::Core;
use crate::broker::request::{Done, Outcome, Request};
use crate::broker::scratch::Scratch;
use crate::protocol::messages::{ApiVersion, ApiVersionsRequest, ApiVersionsResponse};
use crate::protocol::{ApiKey, Array, ErrorCode};

/// The largest version that is understood.
const MAX: i16 = 4;

/// Tells what is served.
pub(super) fn handle(
    core: &Core,
    _: &mut Scratch,
    request: &Request<'_>,
    answer: &mut Answer<'_>,
) -> Outcome {
    if request.version() > MAX {
        // KIP-511: in version 0, with the one entry that the client needs to ask again.
        let own = |out: &mut crate::protocol::ArrayWriter<'_, '_, ApiVersion>| {
            let (api_key, max_version) = (ApiKey::API_VERSIONS.0, MAX);
            out.push(&ApiVersion { api_key, min_version: 0, max_version });
        };
        let error_code = ErrorCode::UNSUPPORTED_VERSION.0;
        let api_keys = Array::emit(1, &own);
        let response = ApiVersionsResponse { error_code, api_keys, ..Default::default() };
        answer.message_as(&response, 0)?;
        return Ok(Done::Answered);
    }
    let body: ApiVersionsRequest<'_> = request.decode()?;
    let named =
        [body.client_software_name, body.client_software_version].into_iter().all(is_software_name);
    if request.version() >= 3 && !named {
        let error_code = ErrorCode::INVALID_REQUEST.0;
        answer.message(&ApiVersionsResponse { error_code, ..Default::default() })?;
        return Ok(Done::Answered);
    }
    let served = || (0..=ApiKey::LAST.0).filter_map(|key| versions(core, ApiKey(key)));
    let emit = |out: &mut crate::protocol::ArrayWriter<'_, '_, ApiVersion>| {
        served().for_each(|api| out.push(&api));
    };
    let api_keys = Array::emit(served().count(), &emit);
    answer.message(&ApiVersionsResponse { api_keys, ..Default::default() })?;
    Ok(Done::Answered)
}

fn versions(core: &Core, key: ApiKey) -> Option<ApiVersion> {
    let (min_version, max_version) = if core.is_host_api(key) {
        kafka_versions(key)?
    } else {
        let api = super::APIS.iter().find(|api| api.key == key)?;
        (api.min, api.max)
    };
    Some(ApiVersion { api_key: key.0, min_version, max_version })
}

/// Letters and digits, with `-` and `.` between them (KIP-511).
fn is_software_name(name: &str) -> bool {
    let ends = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = name.as_bytes();
    let inner = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.');
    ends(bytes.first()) && ends(bytes.last()) && bytes.iter().all(inner)
}

const NONE: (i16, i16) = (0, -1);

/// By key, the versions that brokers of Kafka 4.3 advertise to clients.
static KAFKA: [(i16, i16); 93] = [
    // Produce to Metadata, then what controllers say to each other.
    (0, 13),
    (4, 18),
    (1, 11),
    (0, 13),
    NONE,
    NONE,
    NONE,
    NONE,
    // Offsets and groups, from OffsetCommit on.
    (2, 10),
    (1, 10),
    (0, 6),
    (0, 9),
    (0, 4),
    (0, 5),
    (0, 5),
    (0, 6),
    (0, 5),
    // From SaslHandshake on.
    (0, 1),
    (0, 4),
    (2, 7),
    (1, 6),
    (0, 2),
    (0, 5),
    (2, 4),
    (0, 5),
    (0, 4),
    (0, 5),
    (1, 2),
    (0, 5),
    // From DescribeAcls on.
    (1, 3),
    (1, 3),
    (1, 3),
    (1, 4),
    (0, 2),
    (1, 2),
    (1, 5),
    (0, 2),
    (0, 3),
    (1, 3),
    (1, 2),
    (1, 2),
    (1, 3),
    (0, 2),
    (0, 2),
    (0, 1),
    (0, 1),
    (0, 0),
    (0, 0),
    (0, 1),
    (0, 1),
    (0, 0),
    (0, 0),
    // From Vote on.
    NONE,
    NONE,
    NONE,
    (0, 2),
    NONE,
    (0, 2),
    NONE,
    NONE,
    (0, 2),
    (0, 0),
    NONE,
    NONE,
    (0, 0),
    (0, 0),
    (0, 2),
    NONE,
    // From ConsumerGroupHeartbeat on.
    (0, 1),
    (0, 1),
    NONE,
    (0, 0),
    (0, 0),
    NONE,
    (0, 1),
    (0, 0),
    // From ShareGroupHeartbeat on.
    (1, 1),
    (1, 1),
    (1, 2),
    (1, 2),
    (0, 1),
    (0, 0),
    NONE,
    (0, 0),
    (0, 0),
    (0, 1),
    (0, 0),
    (0, 1),
    (0, 0),
    (0, 0),
    (0, 1),
    (0, 0),
    (0, 0),
];

/// The versions that brokers of Kafka 4.3 advertise to clients; `None` for an API that they keep to
/// themselves.
pub(crate) fn kafka_versions(key: ApiKey) -> Option<(i16, i16)> {
    let versions = *KAFKA.get(usize::try_from(key.0).ok()?)?;
    (versions.0 <= versions.1).then_some(versions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_kafkas() {
        for (key, versions) in [
            (ApiKey::PRODUCE, Some((0, 13))),
            (ApiKey::CONTROLLED_SHUTDOWN, None),
            (ApiKey::OFFSET_COMMIT, Some((2, 10))),
            (ApiKey::FIND_COORDINATOR, Some((0, 6))),
            (ApiKey::SASL_HANDSHAKE, Some((0, 1))),
            (ApiKey::INIT_PRODUCER_ID, Some((0, 5))),
            (ApiKey::DESCRIBE_CONFIGS, Some((1, 4))),
            (ApiKey::OFFSET_DELETE, Some((0, 0))),
            (ApiKey::DESCRIBE_QUORUM, Some((0, 2))),
            (ApiKey::UPDATE_FEATURES, Some((0, 2))),
            (ApiKey::DESCRIBE_CLUSTER, Some((0, 2))),
            (ApiKey::LIST_TRANSACTIONS, Some((0, 2))),
            (ApiKey::CONSUMER_GROUP_HEARTBEAT, Some((0, 1))),
            (ApiKey::DESCRIBE_TOPIC_PARTITIONS, Some((0, 0))),
            (ApiKey::SHARE_FETCH, Some((1, 2))),
            (ApiKey::DELETE_SHARE_GROUP_OFFSETS, Some((0, 0))),
            (ApiKey(-1), None),
            (ApiKey(93), None),
        ] {
            assert_eq!(kafka_versions(key), versions, "{key}");
        }
        assert_eq!(KAFKA.len() as i16, ApiKey::LAST.0 + 1);
    }

    #[test]
    fn software_names() {
        for good in ["a", "apache-kafka-java", "2.16.1-rdkafka-2.16.0", "v1", "7"] {
            assert!(is_software_name(good), "{good}");
        }
        for bad in ["", "-", "a-", ".a", "a b", "a_b", "ä"] {
            assert!(!is_software_name(bad), "{bad}");
        }
    }
}
