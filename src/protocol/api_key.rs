//! ApiKey: the number of a request, its name, and which header stands before it.
//!
//! All of Kafka's keys are known here, so that the header of an API that kloop does not declare can
//! be read and its request handed to the host or forwarded.

/// The number of an API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct ApiKey(pub i16);

/// Stands for a first flexible version that no version reaches.
const NEVER: i16 = i16::MAX;

macro_rules! keys {
    ($($key:literal $CONST:ident $Name:ident, $flexible:expr;)*) => {
        impl ApiKey {
            $(
                #[doc = concat!("`", stringify!($Name), "`.")]
                pub const $CONST: ApiKey = ApiKey($key);
            )*
        }

        /// Name and first flexible version, by key.
        static KEYS: [(&str, i16); [$($key),*].len()] = [$((stringify!($Name), $flexible)),*];

        // The table is indexed by key: a gap or a wrong order must not compile.
        const _: () = {
            let keys = [$($key),*];
            let mut i = 0;
            while i < keys.len() {
                assert!(keys[i] == i);
                i += 1;
            }
        };
    };
}

keys! {
     0 PRODUCE Produce, 9;
     1 FETCH Fetch, 12;
     2 LIST_OFFSETS ListOffsets, 6;
     3 METADATA Metadata, 9;
     4 LEADER_AND_ISR LeaderAndIsr, 4;
     5 STOP_REPLICA StopReplica, 2;
     6 UPDATE_METADATA UpdateMetadata, 6;
     7 CONTROLLED_SHUTDOWN ControlledShutdown, 3;
     8 OFFSET_COMMIT OffsetCommit, 8;
     9 OFFSET_FETCH OffsetFetch, 6;
    10 FIND_COORDINATOR FindCoordinator, 3;
    11 JOIN_GROUP JoinGroup, 6;
    12 HEARTBEAT Heartbeat, 4;
    13 LEAVE_GROUP LeaveGroup, 4;
    14 SYNC_GROUP SyncGroup, 4;
    15 DESCRIBE_GROUPS DescribeGroups, 5;
    16 LIST_GROUPS ListGroups, 3;
    17 SASL_HANDSHAKE SaslHandshake, NEVER;
    18 API_VERSIONS ApiVersions, 3;
    19 CREATE_TOPICS CreateTopics, 5;
    20 DELETE_TOPICS DeleteTopics, 4;
    21 DELETE_RECORDS DeleteRecords, 2;
    22 INIT_PRODUCER_ID InitProducerId, 2;
    23 OFFSET_FOR_LEADER_EPOCH OffsetForLeaderEpoch, 4;
    24 ADD_PARTITIONS_TO_TXN AddPartitionsToTxn, 3;
    25 ADD_OFFSETS_TO_TXN AddOffsetsToTxn, 3;
    26 END_TXN EndTxn, 3;
    27 WRITE_TXN_MARKERS WriteTxnMarkers, 1;
    28 TXN_OFFSET_COMMIT TxnOffsetCommit, 3;
    29 DESCRIBE_ACLS DescribeAcls, 2;
    30 CREATE_ACLS CreateAcls, 2;
    31 DELETE_ACLS DeleteAcls, 2;
    32 DESCRIBE_CONFIGS DescribeConfigs, 4;
    33 ALTER_CONFIGS AlterConfigs, 2;
    34 ALTER_REPLICA_LOG_DIRS AlterReplicaLogDirs, 2;
    35 DESCRIBE_LOG_DIRS DescribeLogDirs, 2;
    36 SASL_AUTHENTICATE SaslAuthenticate, 2;
    37 CREATE_PARTITIONS CreatePartitions, 2;
    38 CREATE_DELEGATION_TOKEN CreateDelegationToken, 2;
    39 RENEW_DELEGATION_TOKEN RenewDelegationToken, 2;
    40 EXPIRE_DELEGATION_TOKEN ExpireDelegationToken, 2;
    41 DESCRIBE_DELEGATION_TOKEN DescribeDelegationToken, 2;
    42 DELETE_GROUPS DeleteGroups, 2;
    43 ELECT_LEADERS ElectLeaders, 2;
    44 INCREMENTAL_ALTER_CONFIGS IncrementalAlterConfigs, 1;
    45 ALTER_PARTITION_REASSIGNMENTS AlterPartitionReassignments, 0;
    46 LIST_PARTITION_REASSIGNMENTS ListPartitionReassignments, 0;
    47 OFFSET_DELETE OffsetDelete, NEVER;
    48 DESCRIBE_CLIENT_QUOTAS DescribeClientQuotas, 1;
    49 ALTER_CLIENT_QUOTAS AlterClientQuotas, 1;
    50 DESCRIBE_USER_SCRAM_CREDENTIALS DescribeUserScramCredentials, 0;
    51 ALTER_USER_SCRAM_CREDENTIALS AlterUserScramCredentials, 0;
    52 VOTE Vote, 0;
    53 BEGIN_QUORUM_EPOCH BeginQuorumEpoch, 1;
    54 END_QUORUM_EPOCH EndQuorumEpoch, 1;
    55 DESCRIBE_QUORUM DescribeQuorum, 0;
    56 ALTER_PARTITION AlterPartition, 0;
    57 UPDATE_FEATURES UpdateFeatures, 0;
    58 ENVELOPE Envelope, 0;
    59 FETCH_SNAPSHOT FetchSnapshot, 0;
    60 DESCRIBE_CLUSTER DescribeCluster, 0;
    61 DESCRIBE_PRODUCERS DescribeProducers, 0;
    62 BROKER_REGISTRATION BrokerRegistration, 0;
    63 BROKER_HEARTBEAT BrokerHeartbeat, 0;
    64 UNREGISTER_BROKER UnregisterBroker, 0;
    65 DESCRIBE_TRANSACTIONS DescribeTransactions, 0;
    66 LIST_TRANSACTIONS ListTransactions, 0;
    67 ALLOCATE_PRODUCER_IDS AllocateProducerIds, 0;
    68 CONSUMER_GROUP_HEARTBEAT ConsumerGroupHeartbeat, 0;
    69 CONSUMER_GROUP_DESCRIBE ConsumerGroupDescribe, 0;
    70 CONTROLLER_REGISTRATION ControllerRegistration, 0;
    71 GET_TELEMETRY_SUBSCRIPTIONS GetTelemetrySubscriptions, 0;
    72 PUSH_TELEMETRY PushTelemetry, 0;
    73 ASSIGN_REPLICAS_TO_DIRS AssignReplicasToDirs, 0;
    74 LIST_CONFIG_RESOURCES ListConfigResources, 0;
    75 DESCRIBE_TOPIC_PARTITIONS DescribeTopicPartitions, 0;
    76 SHARE_GROUP_HEARTBEAT ShareGroupHeartbeat, 0;
    77 SHARE_GROUP_DESCRIBE ShareGroupDescribe, 0;
    78 SHARE_FETCH ShareFetch, 0;
    79 SHARE_ACKNOWLEDGE ShareAcknowledge, 0;
    80 ADD_RAFT_VOTER AddRaftVoter, 0;
    81 REMOVE_RAFT_VOTER RemoveRaftVoter, 0;
    82 UPDATE_RAFT_VOTER UpdateRaftVoter, 0;
    83 INITIALIZE_SHARE_GROUP_STATE InitializeShareGroupState, 0;
    84 READ_SHARE_GROUP_STATE ReadShareGroupState, 0;
    85 WRITE_SHARE_GROUP_STATE WriteShareGroupState, 0;
    86 DELETE_SHARE_GROUP_STATE DeleteShareGroupState, 0;
    87 READ_SHARE_GROUP_STATE_SUMMARY ReadShareGroupStateSummary, 0;
    88 STREAMS_GROUP_HEARTBEAT StreamsGroupHeartbeat, 0;
    89 STREAMS_GROUP_DESCRIBE StreamsGroupDescribe, 0;
    90 DESCRIBE_SHARE_GROUP_OFFSETS DescribeShareGroupOffsets, 0;
    91 ALTER_SHARE_GROUP_OFFSETS AlterShareGroupOffsets, 0;
    92 DELETE_SHARE_GROUP_OFFSETS DeleteShareGroupOffsets, 0;
}

impl ApiKey {
    /// The largest key that is known; all from 0 up to it are.
    pub const LAST: ApiKey = ApiKey(KEYS.len() as i16 - 1);

    #[inline]
    fn entry(self) -> Option<&'static (&'static str, i16)> {
        KEYS.get(usize::try_from(self.0).ok()?)
    }

    /// Kafka's name of the API; `"Unknown"` for a number that Kafka has not given out.
    pub fn name(self) -> &'static str {
        self.entry().map_or("Unknown", |entry| entry.0)
    }

    /// Whether Kafka has given out this number.
    pub fn is_known(self) -> bool {
        self.entry().is_some()
    }

    /// The first version with compact lengths and tagged fields; `i16::MAX` for the two APIs that
    /// have none, `None` for an unknown key.
    #[inline]
    pub fn first_flexible(self) -> Option<i16> {
        self.entry().map(|entry| entry.1)
    }

    /// Which request header stands before `version` of this API: 1, or 2 with tagged fields.
    ///
    /// `None` for an unknown key, and for ControlledShutdown v0: the only request with a header
    /// that lacks the client id, last sent by brokers of 2015.
    #[inline]
    pub fn request_header_version(self, version: i16) -> Option<i16> {
        if self == ApiKey::CONTROLLED_SHUTDOWN && version == 0 {
            return None;
        }
        Some(if version >= self.first_flexible()? { 2 } else { 1 })
    }

    /// Which response header stands before `version` of this API: 0, or 1 with tagged fields.
    ///
    /// Always 0 for ApiVersions, because its answer must be readable by a client that asked in a
    /// version which the broker does not know. `None` for an unknown key.
    #[inline]
    pub fn response_header_version(self, version: i16) -> Option<i16> {
        if self == ApiKey::API_VERSIONS {
            return Some(0);
        }
        Some(i16::from(version >= self.first_flexible()?))
    }
}

impl core::fmt::Display for ApiKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.entry() {
            Some(entry) => f.write_str(entry.0),
            None => write!(f, "API {}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_follow_the_first_flexible_version() {
        assert_eq!(ApiKey::PRODUCE.request_header_version(8), Some(1));
        assert_eq!(ApiKey::PRODUCE.request_header_version(9), Some(2));
        assert_eq!(ApiKey::PRODUCE.response_header_version(9), Some(1));
        assert_eq!(ApiKey::SASL_HANDSHAKE.request_header_version(1), Some(1));
        assert_eq!(ApiKey::OFFSET_DELETE.response_header_version(0), Some(0));
        assert_eq!(ApiKey::DESCRIBE_CLUSTER.request_header_version(0), Some(2));
    }

    #[test]
    fn the_exceptions() {
        assert_eq!(ApiKey::API_VERSIONS.request_header_version(4), Some(2));
        assert_eq!(ApiKey::API_VERSIONS.response_header_version(4), Some(0));
        assert_eq!(ApiKey::CONTROLLED_SHUTDOWN.request_header_version(0), None);
        assert_eq!(ApiKey::CONTROLLED_SHUTDOWN.request_header_version(1), Some(1));
    }

    #[test]
    fn unknown_keys() {
        for key in [-1, i16::MIN, ApiKey::LAST.0 + 1, i16::MAX] {
            assert_eq!(ApiKey(key).name(), "Unknown");
            assert_eq!(ApiKey(key).request_header_version(0), None);
            assert_eq!(ApiKey(key).response_header_version(0), None);
        }
        assert_eq!(ApiKey::LAST, ApiKey::DELETE_SHARE_GROUP_OFFSETS);
        assert_eq!(ApiKey::LAST.name(), "DeleteShareGroupOffsets");
    }
}
