//! Settings of a topic, by Kafka's names: those that change something here, those that are taken
//! and change nothing, and none besides.
//!
//! | changes something | must have this value | taken, changes nothing |
//! |---|---|---|
//! | `message.timestamp.type` | `compression.type`: `producer` | `retention.ms`, `retention.bytes` |
//! | `max.message.bytes` | `min.insync.replicas`: `1` | `segment.bytes`, `segment.ms` |
//! | `cleanup.policy` (keys are asked for) | | `delete.retention.ms`, `min.cleanable.dirty.ratio` |
//! | `message.timestamp.before.max.ms` | | `flush.messages`, `flush.ms`, `file.delete.delay.ms` |
//! | `message.timestamp.after.max.ms` | | `min.compaction.lag.ms`, `max.compaction.lag.ms` |
//! | | | `preallocate`, `unclean.leader.election.enable` |
//!
//! A broker in memory keeps what its memory holds, so the retention settings of clients, which are
//! made for disks, are taken and passed over.

use super::topics::TopicConfig;
use crate::protocol::Array;
use crate::protocol::messages::CreatableTopicConfig;

/// Why a setting is refused: there is none of this name.
pub(crate) const UNKNOWN: &str = "a setting that does not exist, or that this broker lacks";
/// Why a setting is refused: its value.
pub(crate) const INVALID: &str = "a setting has a value that it cannot have here";

/// What a setting's value must look like.
#[derive(Clone, Copy, Debug)]
enum Form {
    /// A whole number not below this.
    From(i64),
    /// A number between 0 and 1.
    Ratio,
    /// `true` or `false`.
    Flag,
    /// One of these.
    OneOf(&'static [&'static str]),
    /// `compact` and `delete`, or one of them.
    Policy,
}

use Form::{Flag, From, OneOf, Policy, Ratio};

/// Name, default, form.
static SETTINGS: &[(&str, &str, Form)] = &[
    ("cleanup.policy", "delete", Policy),
    ("compression.type", "producer", OneOf(&["producer"])),
    ("delete.retention.ms", "86400000", From(0)),
    ("file.delete.delay.ms", "60000", From(0)),
    ("flush.messages", "9223372036854775807", From(1)),
    ("flush.ms", "9223372036854775807", From(0)),
    ("max.compaction.lag.ms", "9223372036854775807", From(1)),
    ("max.message.bytes", "1048588", From(0)),
    ("message.timestamp.after.max.ms", "3600000", From(0)),
    ("message.timestamp.before.max.ms", "9223372036854775807", From(0)),
    ("message.timestamp.type", "CreateTime", OneOf(&["CreateTime", "LogAppendTime"])),
    ("min.cleanable.dirty.ratio", "0.5", Ratio),
    ("min.compaction.lag.ms", "0", From(0)),
    ("min.insync.replicas", "1", OneOf(&["1"])),
    ("preallocate", "false", Flag),
    ("retention.bytes", "-1", From(-1)),
    ("retention.ms", "604800000", From(-1)),
    ("segment.bytes", "1073741824", From(14)),
    ("segment.ms", "604800000", From(1)),
    ("unclean.leader.election.enable", "false", Flag),
];

/// How many settings there are.
pub(crate) const COUNT: usize = SETTINGS.len();

/// One setting of a topic.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting<'a> {
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: &'a str,
    /// Whether the topic says so itself.
    pub of_topic: bool,
}

type Asked<'a> = Array<'a, CreatableTopicConfig<'static>>;

/// Reads what a topic says of itself; `batch_max` is the largest batch that the log can hold.
///
/// # Errors
/// Why a setting is refused.
pub(crate) fn read(
    defaults: &TopicConfig,
    batch_max: usize,
    asked: Asked<'_>,
) -> Result<TopicConfig, &'static str> {
    let mut config = *defaults;
    for setting in asked {
        let known = SETTINGS.iter().find(|(name, ..)| *name == setting.name).ok_or(UNKNOWN)?;
        // Null is the default.
        let Some(value) = setting.value else { continue };
        if !has_form(value, known.2) {
            return Err(INVALID);
        }
        let number = value.parse().unwrap_or(i64::MAX);
        match setting.name {
            "message.timestamp.type" => config.log_append_time = value == "LogAppendTime",
            "cleanup.policy" => config.compact = value.contains("compact"),
            "message.timestamp.before.max.ms" => config.before_max_ms = number,
            "message.timestamp.after.max.ms" => config.after_max_ms = number,
            "max.message.bytes" => {
                config.max_message_bytes =
                    usize::try_from(number).unwrap_or(batch_max).min(batch_max);
            }
            _ => {}
        }
    }
    Ok(config)
}

/// Tells all settings of a topic that asked for these.
pub(crate) fn effective(asked: Asked<'_>, mut tell: impl FnMut(Setting<'_>)) {
    for (name, default, _) in SETTINGS {
        let said = asked.iter().filter(|setting| setting.name == *name).last();
        let said = said.and_then(|setting| setting.value);
        tell(Setting { name, value: said.unwrap_or(default), of_topic: said.is_some() });
    }
}

fn has_form(value: &str, form: Form) -> bool {
    match form {
        From(least) => value.parse::<i64>().is_ok_and(|n| n >= least),
        Ratio => value.parse::<f64>().is_ok_and(|x| (0.0..=1.0).contains(&x)),
        Flag => matches!(value, "true" | "false"),
        OneOf(values) => values.contains(&value),
        Policy => {
            !value.is_empty()
                && value.split(',').all(|part| matches!(part.trim(), "compact" | "delete"))
        }
    }
}
