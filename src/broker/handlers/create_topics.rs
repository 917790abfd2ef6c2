//! CreateTopics: topics with their settings. There is one broker, so every partition has it as its
//! only replica.

use crate::broker::answer::Answer;
use crate::broker::core::Core;
use crate::broker::request::{Done, Outcome, Request, Stop};
use crate::broker::scratch::Scratch;
use crate::broker::topic_settings::{self, Setting};
use crate::broker::topics::{Refused, TopicConfig};
use crate::logging::Level;
use crate::protocol::messages::{
    CreatableTopic, CreatableTopicConfigs, CreatableTopicResult, CreateTopicsRequest,
    CreateTopicsResponse,
};
use crate::protocol::{Array, ArrayWriter, ErrorCode, Message, Uuid};

/// What became of one topic.
#[derive(Clone, Copy, Debug, Default)]
struct Created {
    error: ErrorCode,
    message: Option<&'static str>,
    id: Uuid,
    partitions: i32,
}

/// A topic as it would be.
struct Plan {
    partitions: usize,
    config: TopicConfig,
}

/// Creates topics, or only checks them.
pub(super) fn handle(
    core: &Core,
    _: &mut Scratch,
    request: &Request<'_>,
    answer: &mut Answer<'_>,
) -> Outcome {
    let body: CreateTopicsRequest<'_> = request.decode()?;
    let limit = core.topics.max_partitions();
    if body.topics.len() > limit {
        return Err(Stop::Close("more topics to create than the broker can have"));
    }
    // Creating a topic takes memory anyway, so this does too.
    let mut outcomes: Box<[Created]> =
        (0..body.topics.len()).map(|_| Created { partitions: 1, ..longest() }).collect();
    let len = respond(&body, &outcomes, |response| response.encoded_len(request.version()));
    answer.reserve(len)?;
    let mut names: Box<[&str]> = body.topics.iter().map(|topic| topic.name).collect();
    names.sort_unstable();
    for (outcome, topic) in outcomes.iter_mut().zip(body.topics) {
        *outcome = match plan(core, &names, &topic) {
            Ok(plan) if body.validate_only => validated(core, &topic, &plan),
            Ok(plan) => create(core, &topic, &plan),
            Err(refused) => refused,
        };
    }
    respond(&body, &outcomes, |response| answer.message(response))?;
    Ok(Done::Answered)
}

/// The longest text that is answered, to know how much room answers may need.
fn longest() -> Created {
    let texts = [
        TOO_FEW_PARTITIONS,
        REPLICAS,
        ASSIGNMENT,
        BOTH,
        TWICE,
        FULL,
        NAME,
        COLLIDES,
        EXISTS,
        topic_settings::UNKNOWN,
        topic_settings::INVALID,
    ];
    let message = texts.into_iter().max_by_key(|text| text.len());
    Created { message, ..Created::default() }
}

const TOO_FEW_PARTITIONS: &str = "the number of partitions must be positive, or -1";
const REPLICAS: &str = "there is one broker, so the replication factor must be 1 or -1";
const ASSIGNMENT: &str = "partitions must be assigned from 0 on, each to this broker alone";
const BOTH: &str = "with an assignment, partitions and replication factor must be -1";
const TWICE: &str = "the topic is named twice in the request";
const FULL: &str = "the broker has as many topics or partitions as it may have";
const NAME: &str = "a topic is called by 1 to 249 of a-z A-Z 0-9 . _ -, and not . or ..";
const COLLIDES: &str = "the name differs from another topic's in . and _ only";
const EXISTS: &str = "the topic exists";

fn refuse(error: ErrorCode, message: &'static str) -> Created {
    Created { error, message: Some(message), partitions: -1, ..Created::default() }
}

fn plan(core: &Core, names: &[&str], topic: &CreatableTopic<'_>) -> Result<Plan, Created> {
    let first = names.partition_point(|name| *name < topic.name);
    if names.get(first + 1) == Some(&topic.name) {
        return Err(refuse(ErrorCode::INVALID_REQUEST, TWICE));
    }
    let partitions = partitions(core, topic)?;
    let config = topic_settings::read(&core.settings.topic, core.batch_max(), topic.configs)
        .map_err(|why| refuse(ErrorCode::INVALID_CONFIG, why))?;
    Ok(Plan { partitions, config })
}

/// How many partitions the topic gets. -1 is the default in every version (kafkajs sends it at v3).
fn partitions(core: &Core, topic: &CreatableTopic<'_>) -> Result<usize, Created> {
    if !topic.assignments.is_empty() {
        if topic.num_partitions != -1 || topic.replication_factor != -1 {
            return Err(refuse(ErrorCode::INVALID_REQUEST, BOTH));
        }
        let count = topic.assignments.len();
        // Each of 0..count once: as many as there are, none outside, and their sum.
        let mut sum = 0u64;
        for assigned in topic.assignments {
            let index = usize::try_from(assigned.partition_index).unwrap_or(usize::MAX);
            let alone = assigned.broker_ids.iter().eq([core.settings.node_id]);
            if index >= count || !alone {
                return Err(refuse(ErrorCode::INVALID_REPLICA_ASSIGNMENT, ASSIGNMENT));
            }
            sum += index as u64;
        }
        let distinct = sum == (count as u64 * (count as u64 - 1)) / 2;
        let error = refuse(ErrorCode::INVALID_REPLICA_ASSIGNMENT, ASSIGNMENT);
        return if distinct { Ok(count) } else { Err(error) };
    }
    if topic.replication_factor != -1 && topic.replication_factor != 1 {
        return Err(refuse(ErrorCode::INVALID_REPLICATION_FACTOR, REPLICAS));
    }
    match topic.num_partitions {
        -1 => Ok(core.settings.num_partitions as usize),
        n if n > 0 => Ok(n as usize),
        _ => Err(refuse(ErrorCode::INVALID_PARTITIONS, TOO_FEW_PARTITIONS)),
    }
}

fn validated(core: &Core, topic: &CreatableTopic<'_>, plan: &Plan) -> Created {
    match core.topics.check(topic.name, plan.partitions) {
        Ok(()) => Created { partitions: plan.partitions as i32, ..Created::default() },
        Err(refused) => explain(refused),
    }
}

fn create(core: &Core, topic: &CreatableTopic<'_>, plan: &Plan) -> Created {
    let (name, config) = (topic.name, plan.config);
    match core.topics.create(name, plan.partitions, config, &core.random, &core.memory) {
        Ok(made) => {
            let line = format_args!("topic {name} is created, partitions: {}", plan.partitions);
            core.logger.line(Level::Info, line);
            let partitions = made.partitions.len() as i32;
            Created { id: made.id, partitions, ..Created::default() }
        }
        Err(refused) => explain(refused),
    }
}

fn explain(refused: Refused) -> Created {
    match refused {
        Refused::Name => refuse(ErrorCode::INVALID_TOPIC_EXCEPTION, NAME),
        Refused::Collides => refuse(ErrorCode::INVALID_TOPIC_EXCEPTION, COLLIDES),
        Refused::Exists => refuse(ErrorCode::TOPIC_ALREADY_EXISTS, EXISTS),
        Refused::Full => refuse(ErrorCode::POLICY_VIOLATION, FULL),
    }
}

/// Hands the response to `use_it`.
fn respond<R>(
    body: &CreateTopicsRequest<'_>,
    outcomes: &[Created],
    use_it: impl FnOnce(&CreateTopicsResponse<'_>) -> R,
) -> R {
    let topics = |out: &mut ArrayWriter<'_, '_, CreatableTopicResult<'static>>| {
        for (outcome, topic) in outcomes.iter().zip(body.topics) {
            push(out, outcome, &topic);
        }
    };
    let topics = Array::emit(body.topics.len(), &topics);
    use_it(&CreateTopicsResponse { topics, ..Default::default() })
}

fn push(
    out: &mut ArrayWriter<'_, '_, CreatableTopicResult<'static>>,
    outcome: &Created,
    topic: &CreatableTopic<'_>,
) {
    let configs = |out: &mut ArrayWriter<'_, '_, CreatableTopicConfigs<'static>>| {
        topic_settings::effective(topic.configs, |Setting { name, value, of_topic }| {
            // Where it comes from: 1 is the topic, 5 is the default.
            let config_source = if of_topic { 1 } else { 5 };
            out.push(&CreatableTopicConfigs {
                name,
                value: Some(value),
                config_source,
                ..Default::default()
            });
        });
    };
    let made = outcome.error.is_ok();
    let told = Array::emit(topic_settings::COUNT, &configs);
    out.push(&CreatableTopicResult {
        name: topic.name,
        topic_id: outcome.id,
        error_code: outcome.error.0,
        error_message: outcome.message,
        num_partitions: outcome.partitions,
        replication_factor: if made { 1 } else { -1 },
        configs: Some(if made { told } else { Array::empty() }),
        ..Default::default()
    });
}
