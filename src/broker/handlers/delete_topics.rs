//! DeleteTopics: by name, and from v6 on by id. The topic is gone when the answer is given; readers
//! that still send its batches keep them until they are done.

use crate::broker::answer::Answer;
use crate::broker::core::Core;
use crate::broker::request::{Done, Outcome, Request, Stop};
use crate::broker::scratch::{Appended, Scratch};
use crate::broker::topics::Topic;
use crate::logging::Level;
use crate::protocol::messages::{
    DeletableTopicResult, DeleteTopicState, DeleteTopicsRequest, DeleteTopicsResponse,
};
use crate::protocol::{Array, ArrayWriter, ErrorCode, Message, Uuid};
use crate::sync::Arc;

/// What became of one topic.
#[derive(Clone, Debug, Default)]
struct Deleted {
    error: ErrorCode,
    id: Uuid,
    topic: Option<Arc<Topic>>,
}

/// Deletes topics.
pub(super) fn handle(
    core: &Core,
    scratch: &mut Scratch,
    request: &Request<'_>,
    answer: &mut Answer<'_>,
) -> Outcome {
    let body: DeleteTopicsRequest<'_> = request.decode()?;
    // Up to v5 by name, from then on by name or id; the one that a version lacks is empty.
    let by_name = |name| DeleteTopicState { name: Some(name), ..Default::default() };
    let asked: Box<[_]> = body.topic_names.iter().map(by_name).chain(body.topics).collect();
    if asked.len() > core.topics.max_topics() {
        return Err(Stop::Close("more topics to delete than the broker can have"));
    }
    let mut outcomes: Box<[Deleted]> = asked.iter().map(|asked| find(core, asked)).collect();
    let len = respond(&asked, &outcomes, |response| response.encoded_len(request.version()));
    answer.reserve(len)?;
    for outcome in &mut outcomes {
        if let Some(topic) = &outcome.topic
            && !delete(core, topic, &mut scratch.appended)
        {
            // Named before in the same request, or deleted by another one meanwhile.
            outcome.error = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
        }
    }
    respond(&asked, &outcomes, |response| answer.message(response))?;
    Ok(Done::Answered)
}

fn find(core: &Core, asked: &DeleteTopicState<'_>) -> Deleted {
    let refused = |error| Deleted { error, id: asked.topic_id, topic: None };
    if !core.settings.delete_topics {
        return refused(ErrorCode::TOPIC_DELETION_DISABLED);
    }
    let (topic, unknown) = match asked.name {
        Some(_) if asked.topic_id != [0; 16] => return refused(ErrorCode::INVALID_REQUEST),
        Some(name) => (core.topics.by_name(name), ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
        None => (core.topics.by_id(&asked.topic_id), ErrorCode::UNKNOWN_TOPIC_ID),
    };
    match topic {
        Some(topic) => Deleted { error: ErrorCode::NONE, id: topic.id, topic: Some(topic) },
        None => refused(unknown),
    }
}

fn delete(core: &Core, topic: &Topic, appended: &mut Appended) -> bool {
    if !core.topics.remove(topic) {
        return false;
    }
    for partition in &topic.partitions {
        partition.delete(core);
        // Who waits for it is to hear of it.
        appended.note(partition.index);
    }
    core.topics.release(topic);
    core.memory.forget_gone();
    core.logger.line(Level::Info, format_args!("topic {} is deleted", topic.name));
    true
}

/// Hands the response to `use_it`.
fn respond<R>(
    asked: &[DeleteTopicState<'_>],
    outcomes: &[Deleted],
    use_it: impl FnOnce(&DeleteTopicsResponse<'_>) -> R,
) -> R {
    let responses = |out: &mut ArrayWriter<'_, '_, DeletableTopicResult<'static>>| {
        for (outcome, asked) in outcomes.iter().zip(asked) {
            // Asked by an id that is not known, the name stays null.
            let found = outcome.topic.as_ref().map(|topic| &*topic.name);
            out.push(&DeletableTopicResult {
                name: asked.name.or(found),
                topic_id: outcome.id,
                error_code: outcome.error.0,
                ..Default::default()
            });
        }
    };
    let responses = Array::emit(asked.len(), &responses);
    use_it(&DeleteTopicsResponse { responses, ..Default::default() })
}
