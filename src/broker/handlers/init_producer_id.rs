//! InitProducerId: an id for an idempotent producer. Ids are never given out twice, so epochs stay
//! at 0 (KIP-360 lets an idempotent producer ask for a new id at any time). Transactions are not
//! served.

use crate::broker::answer::Answer;
use crate::broker::core::Core;
use crate::broker::request::{Done, Outcome, Request};
use crate::broker::scratch::Scratch;
use crate::protocol::ErrorCode;
use crate::protocol::messages::{InitProducerIdRequest, InitProducerIdResponse};

/// Gives out an id.
pub(super) fn handle(
    core: &Core,
    _: &mut Scratch,
    request: &Request<'_>,
    answer: &mut Answer<'_>,
) -> Outcome {
    let body: InitProducerIdRequest<'_> = request.decode()?;
    let error = match body.transactional_id {
        Some("") => ErrorCode::INVALID_REQUEST,
        // From v3 on a producer names its id and epoch, both or neither (KIP-360).
        _ if (body.producer_id == -1) != (body.producer_epoch == -1) => ErrorCode::INVALID_REQUEST,
        Some(_) => ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        None => ErrorCode::NONE,
    };
    let mut response = InitProducerIdResponse {
        error_code: error.0,
        producer_id: -1,
        producer_epoch: -1,
        ..Default::default()
    };
    answer.reserve(crate::protocol::Message::encoded_len(&response, request.version()))?;
    if error.is_ok() {
        response.producer_id = core.producer_id();
        response.producer_epoch = 0;
    }
    answer.message(&response)?;
    Ok(Done::Answered)
}
