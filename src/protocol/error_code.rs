//! ErrorCode: Kafka's error numbers, what they mean, and which of them may go away by retrying.

use core::ffi::CStr;

/// An error code as it stands on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct ErrorCode(pub i16);

struct Entry {
    name: &'static CStr,
    retriable: bool,
    message: &'static str,
}

const fn c_name(text: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(name) => name,
        Err(_) => panic!("a name with a zero byte"),
    }
}

macro_rules! codes {
    ($($code:literal $NAME:ident $retriable:ident, $message:literal;)*) => {
        impl ErrorCode {
            $(
                #[doc = concat!("Code ", $code, ": ", $message, ".")]
                pub const $NAME: ErrorCode = ErrorCode($code);
            )*
        }

        static CODES: [Entry; [$($code),*].len()] = [$(
            Entry {
                name: c_name(concat!(stringify!($NAME), "\0")),
                retriable: codes!(@bool $retriable),
                message: $message,
            }
        ),*];

        // The table is indexed by code plus one: a gap or a wrong order must not compile.
        const _: () = {
            let codes: [i16; _] = [$($code),*];
            let mut i = 0;
            while i < codes.len() {
                assert!(codes[i] + 1 == i as i16);
                i += 1;
            }
        };
    };
    (@bool yes) => { true };
    (@bool no) => { false };
}

// Whether a code may go away by retrying, and what it means in short.
codes! {
    -1 UNKNOWN_SERVER_ERROR no, "the broker failed in a way that it cannot name";
    0 NONE no, "no error";
    1 OFFSET_OUT_OF_RANGE no, "the partition does not have this offset";
    2 CORRUPT_MESSAGE yes, "the batch is damaged: checksum, size or form";
    3 UNKNOWN_TOPIC_OR_PARTITION yes, "the broker does not have this topic or partition";
    4 INVALID_FETCH_SIZE no, "the fetch size is not allowed";
    5 LEADER_NOT_AVAILABLE yes, "the partition has no leader at the moment";
    6 NOT_LEADER_OR_FOLLOWER yes, "the broker does not lead, or does not hold, this partition";
    7 REQUEST_TIMED_OUT yes, "the broker ran out of time";
    8 BROKER_NOT_AVAILABLE no, "the broker is not available";
    9 REPLICA_NOT_AVAILABLE yes, "the replica is not available on this broker";
    10 MESSAGE_TOO_LARGE no, "the batch is larger than the broker or topic takes";
    11 STALE_CONTROLLER_EPOCH no, "the controller has moved on";
    12 OFFSET_METADATA_TOO_LARGE no, "the text committed with an offset is too long";
    13 NETWORK_EXCEPTION yes, "the connection ended before the answer";
    14 COORDINATOR_LOAD_IN_PROGRESS yes, "the coordinator still reads its state";
    15 COORDINATOR_NOT_AVAILABLE yes, "there is no coordinator at the moment";
    16 NOT_COORDINATOR yes, "the broker does not coordinate this group or transaction";
    17 INVALID_TOPIC_EXCEPTION no, "the topic's name is not allowed";
    18 RECORD_LIST_TOO_LARGE no, "the batch is larger than a segment of the log";
    19 NOT_ENOUGH_REPLICAS yes, "too few replicas are in sync; nothing was written";
    20 NOT_ENOUGH_REPLICAS_AFTER_APPEND yes, "written, but too few replicas were in sync then";
    21 INVALID_REQUIRED_ACKS no, "acks is not 0, 1 or -1";
    22 ILLEGAL_GENERATION no, "the group's generation is another";
    23 INCONSISTENT_GROUP_PROTOCOL no, "the member and its group have no protocol in common";
    24 INVALID_GROUP_ID no, "the group's name is not allowed";
    25 UNKNOWN_MEMBER_ID no, "the group does not know this member";
    26 INVALID_SESSION_TIMEOUT no, "the session timeout is outside what the broker allows";
    27 REBALANCE_IN_PROGRESS no, "the group rebalances; join again";
    28 INVALID_COMMIT_OFFSET_SIZE no, "the offsets are too large to be stored";
    29 TOPIC_AUTHORIZATION_FAILED no, "not permitted on this topic";
    30 GROUP_AUTHORIZATION_FAILED no, "not permitted on this group";
    31 CLUSTER_AUTHORIZATION_FAILED no, "not permitted on the cluster";
    32 INVALID_TIMESTAMP no, "a timestamp is outside what the topic allows";
    33 UNSUPPORTED_SASL_MECHANISM no, "the broker does not offer this SASL mechanism";
    34 ILLEGAL_SASL_STATE no, "the request does not fit the state of authentication";
    35 UNSUPPORTED_VERSION no, "the broker does not serve this version";
    36 TOPIC_ALREADY_EXISTS no, "the topic exists";
    37 INVALID_PARTITIONS no, "the number of partitions is not allowed";
    38 INVALID_REPLICATION_FACTOR no, "the number of replicas is not allowed or not possible";
    39 INVALID_REPLICA_ASSIGNMENT no, "the assignment of replicas is not allowed";
    40 INVALID_CONFIG no, "a setting is not allowed";
    41 NOT_CONTROLLER yes, "the broker is not the controller";
    42 INVALID_REQUEST no, "the request contradicts itself or the protocol";
    43 UNSUPPORTED_FOR_MESSAGE_FORMAT no, "the topic's record format cannot do this";
    44 POLICY_VIOLATION no, "a policy of the cluster forbids it";
    45 OUT_OF_ORDER_SEQUENCE_NUMBER no, "a batch before this one is missing";
    46 DUPLICATE_SEQUENCE_NUMBER no, "the batch was written before";
    47 INVALID_PRODUCER_EPOCH no, "a newer producer took over this id";
    48 INVALID_TXN_STATE no, "the transaction is not in a state for this";
    49 INVALID_PRODUCER_ID_MAPPING no, "the producer id does not belong to this transaction";
    50 INVALID_TRANSACTION_TIMEOUT no, "the transaction timeout is above what the broker allows";
    51 CONCURRENT_TRANSACTIONS yes, "the transaction before is still being ended";
    52 TRANSACTION_COORDINATOR_FENCED no, "another coordinator took over";
    53 TRANSACTIONAL_ID_AUTHORIZATION_FAILED no, "not permitted on this transaction";
    54 SECURITY_DISABLED no, "the broker has no authorizer";
    55 OPERATION_NOT_ATTEMPTED no, "not tried, because something else in the request failed";
    56 KAFKA_STORAGE_ERROR yes, "the broker's disk failed";
    57 LOG_DIR_NOT_FOUND no, "the broker does not have this directory";
    58 SASL_AUTHENTICATION_FAILED no, "the credentials were refused";
    59 UNKNOWN_PRODUCER_ID no, "the partition no longer knows this producer";
    60 REASSIGNMENT_IN_PROGRESS no, "the partition is being moved";
    61 DELEGATION_TOKEN_AUTH_DISABLED no, "delegation tokens are switched off";
    62 DELEGATION_TOKEN_NOT_FOUND no, "the token is not known";
    63 DELEGATION_TOKEN_OWNER_MISMATCH no, "the token belongs to somebody else";
    64 DELEGATION_TOKEN_REQUEST_NOT_ALLOWED no, "tokens cannot be had over this connection";
    65 DELEGATION_TOKEN_AUTHORIZATION_FAILED no, "not permitted on this token";
    66 DELEGATION_TOKEN_EXPIRED no, "the token has expired";
    67 INVALID_PRINCIPAL_TYPE no, "the kind of principal is not supported";
    68 NON_EMPTY_GROUP no, "the group still has members";
    69 GROUP_ID_NOT_FOUND no, "the group does not exist";
    70 FETCH_SESSION_ID_NOT_FOUND yes, "the fetch session is not known";
    71 INVALID_FETCH_SESSION_EPOCH yes, "the fetch session expected another request";
    72 LISTENER_NOT_FOUND yes, "the leader has no listener of this name";
    73 TOPIC_DELETION_DISABLED no, "deleting topics is switched off";
    74 FENCED_LEADER_EPOCH yes, "the asker's leader epoch is too old";
    75 UNKNOWN_LEADER_EPOCH yes, "the asker's leader epoch is newer than the broker's";
    76 UNSUPPORTED_COMPRESSION_TYPE no, "the compression is not supported by this version";
    77 STALE_BROKER_EPOCH no, "the broker has registered anew since";
    78 OFFSET_NOT_AVAILABLE yes, "a new leader cannot tell the end offset yet";
    79 MEMBER_ID_REQUIRED no, "join again with the member id in this answer";
    80 PREFERRED_LEADER_NOT_AVAILABLE yes, "the preferred leader is not available";
    81 GROUP_MAX_SIZE_REACHED no, "the group is full";
    82 FENCED_INSTANCE_ID no, "another member took over this static instance";
    83 ELIGIBLE_LEADERS_NOT_AVAILABLE yes, "no replica may become leader";
    84 ELECTION_NOT_NEEDED yes, "the partition has the leader that was asked for";
    85 NO_REASSIGNMENT_IN_PROGRESS no, "the partition is not being moved";
    86 GROUP_SUBSCRIBED_TO_TOPIC no, "the group reads this topic; its offsets must stay";
    87 INVALID_RECORD no, "a record was refused by the broker";
    88 UNSTABLE_OFFSET_COMMIT yes, "a transaction that commits offsets is open";
    89 THROTTLING_QUOTA_EXCEEDED yes, "a quota is used up";
    90 PRODUCER_FENCED no, "a newer producer took over this transaction";
    91 RESOURCE_NOT_FOUND no, "the thing named does not exist";
    92 DUPLICATE_RESOURCE no, "the thing is named twice";
    93 UNACCEPTABLE_CREDENTIAL no, "the new credential does not meet the rules";
    94 INCONSISTENT_VOTER_SET no, "the voters differ from those expected";
    95 INVALID_UPDATE_VERSION no, "the feature level is not possible";
    96 FEATURE_UPDATE_FAILED no, "the feature could not be changed";
    97 PRINCIPAL_DESERIALIZATION_FAILURE no, "a forwarded principal could not be read";
    98 SNAPSHOT_NOT_FOUND no, "the snapshot does not exist";
    99 POSITION_OUT_OF_RANGE no, "the position is outside the snapshot";
    100 UNKNOWN_TOPIC_ID yes, "the broker does not have a topic of this id";
    101 DUPLICATE_BROKER_REGISTRATION no, "another broker holds this id";
    102 BROKER_ID_NOT_REGISTERED no, "the broker is not registered";
    103 INCONSISTENT_TOPIC_ID yes, "the topic's id is another";
    104 INCONSISTENT_CLUSTER_ID no, "the cluster's id is another";
    105 TRANSACTIONAL_ID_NOT_FOUND no, "the transaction is not known";
    106 FETCH_SESSION_TOPIC_ID_ERROR yes, "the fetch session mixes topic names and ids";
    107 INELIGIBLE_REPLICA no, "a replica may not come in sync now";
    108 NEW_LEADER_ELECTED no, "the change made another broker leader";
    109 OFFSET_MOVED_TO_TIERED_STORAGE no, "the offset is in remote storage only";
    110 FENCED_MEMBER_EPOCH no, "the member's epoch is not the group's; join again";
    111 UNRELEASED_INSTANCE_ID no, "another member still holds this static instance";
    112 UNSUPPORTED_ASSIGNOR no, "the broker does not have this assignor";
    113 STALE_MEMBER_EPOCH no, "the member's epoch is too old; retry with its new one";
    114 MISMATCHED_ENDPOINT_TYPE no, "the request went to the wrong kind of endpoint";
    115 UNSUPPORTED_ENDPOINT_TYPE no, "this kind of endpoint is not supported";
    116 UNKNOWN_CONTROLLER_ID no, "the controller id is not known";
    117 UNKNOWN_SUBSCRIPTION_ID no, "the telemetry subscription is another";
    118 TELEMETRY_TOO_LARGE no, "the telemetry is too large";
    119 INVALID_REGISTRATION no, "the registration is not possible";
    120 TRANSACTION_ABORTABLE no, "the transaction must be aborted";
    121 INVALID_RECORD_STATE no, "the shared record is not in a state for this";
    122 SHARE_SESSION_NOT_FOUND yes, "the share session is not known";
    123 INVALID_SHARE_SESSION_EPOCH yes, "the share session expected another request";
    124 FENCED_STATE_EPOCH no, "the share state has a newer epoch";
    125 INVALID_VOTER_KEY no, "the voter's key does not match";
    126 DUPLICATE_VOTER no, "the voter is in the set already";
    127 VOTER_NOT_FOUND no, "the voter is not in the set";
    128 INVALID_REGULAR_EXPRESSION no, "the regular expression is not valid";
    129 REBOOTSTRAP_REQUIRED no, "what the client knows is stale; start from the bootstrap list";
    130 STREAMS_INVALID_TOPOLOGY no, "the topology is not valid";
    131 STREAMS_INVALID_TOPOLOGY_EPOCH no, "the topology's epoch is not valid";
    132 STREAMS_TOPOLOGY_FENCED no, "the topology's epoch is too old";
    133 SHARE_SESSION_LIMIT_REACHED yes, "there are too many share sessions";
}

impl ErrorCode {
    fn entry(self) -> Option<&'static Entry> {
        CODES.get(usize::try_from(i32::from(self.0) + 1).ok()?)
    }

    /// True for 0.
    #[inline]
    pub fn is_ok(self) -> bool {
        self == ErrorCode::NONE
    }

    /// Kafka's name of the code; `"UNKNOWN"` for a number that Kafka has not given out.
    pub fn name(self) -> &'static str {
        // The names are letters and underscores.
        self.c_name().to_str().unwrap_or("UNKNOWN")
    }

    /// [`ErrorCode::name`] as C wants it.
    pub fn c_name(self) -> &'static CStr {
        self.entry().map_or(c"UNKNOWN", |entry| entry.name)
    }

    /// Whether the same request may succeed later, perhaps after new metadata. False for a number
    /// that Kafka has not given out.
    pub fn is_retriable(self) -> bool {
        self.entry().is_some_and(|entry| entry.retriable)
    }

    /// What the code means, in a few words.
    pub fn message(self) -> &'static str {
        self.entry().map_or("the code is not known", |entry| entry.message)
    }
}

impl From<ErrorCode> for i16 {
    fn from(code: ErrorCode) -> i16 {
        code.0
    }
}

impl From<ErrorCode> for crate::error::Error {
    fn from(code: ErrorCode) -> Self {
        crate::error::Error::Kafka(code.0)
    }
}

impl core::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} ({}): {}", self.name(), self.0, self.message())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_and_unknown_codes() {
        assert_eq!(ErrorCode(-1).name(), "UNKNOWN_SERVER_ERROR");
        assert_eq!(ErrorCode(0), ErrorCode::NONE);
        assert_eq!(ErrorCode(6).name(), "NOT_LEADER_OR_FOLLOWER");
        assert!(ErrorCode(6).is_retriable());
        assert!(!ErrorCode(10).is_retriable());
        assert_eq!(ErrorCode(133), ErrorCode::SHARE_SESSION_LIMIT_REACHED);
        for code in [i16::MIN, -2, 134, i16::MAX] {
            assert_eq!(ErrorCode(code).name(), "UNKNOWN");
            assert!(!ErrorCode(code).is_retriable());
        }
    }
}
