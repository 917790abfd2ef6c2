//! Leader epochs: one broker leads everything, in epoch 0, for ever.

use super::log::LEADER_EPOCH;
use crate::protocol::ErrorCode;

/// What to say to a client that believes in this leader epoch; -1 believes in none (KIP-320).
pub(crate) fn check(believed: i32) -> ErrorCode {
    match believed {
        -1 | LEADER_EPOCH => ErrorCode::NONE,
        epoch if epoch < LEADER_EPOCH => ErrorCode::FENCED_LEADER_EPOCH,
        _ => ErrorCode::UNKNOWN_LEADER_EPOCH,
    }
}
