//! Properties: configuration by Kafka's own names, checked at creation. The key that is wrong is
//! named; a key that nobody took is refused.

/// What is wrong with a configuration, and at which key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadProperty {
    /// The property's name.
    pub key: String,
    /// What is wrong with it.
    pub why: &'static str,
    /// Of a number: what it may be.
    pub range: Option<NumberRange>,
}

/// The numbers that a property takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberRange {
    /// The least.
    pub least: i64,
    /// The largest.
    pub most: i64,
}

impl core::fmt::Display for NumberRange {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        // What any number is below or above says nothing.
        match (self.least, self.most) {
            (least, i64::MAX) => write!(f, "{least} or more"),
            (i64::MIN, most) => write!(f, "{most} or less"),
            (least, most) => write!(f, "{least} to {most}"),
        }
    }
}

impl core::fmt::Display for BadProperty {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}: {}", self.key, self.why)?;
        self.range.map_or(Ok(()), |range| write!(f, " ({range})"))
    }
}

impl std::error::Error for BadProperty {}

/// Key-value pairs that are taken one by one.
#[derive(Debug)]
pub struct Properties<'a> {
    pairs: Vec<(&'a str, &'a str, bool)>,
}

impl<'a> Properties<'a> {
    /// All pairs, none taken yet. Of a key given twice the last one counts.
    pub fn new(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        Properties { pairs: pairs.into_iter().map(|(k, v)| (k, v, false)).collect() }
    }

    /// Takes a property as text.
    pub fn text(&mut self, key: &str) -> Option<&'a str> {
        let mut found = None;
        for (k, v, taken) in &mut self.pairs {
            if *k == key {
                *taken = true;
                found = Some(v.trim());
            }
        }
        found
    }

    /// Takes a property as a number within `range`.
    ///
    /// # Errors
    /// [`BadProperty`] if it is no number or out of range.
    pub fn number(
        &mut self,
        key: &str,
        default: i64,
        range: core::ops::RangeInclusive<i64>,
    ) -> Result<i64, BadProperty> {
        let why = match self.text(key).map(str::parse::<i64>) {
            None => return Ok(default),
            Some(Ok(n)) if range.contains(&n) => return Ok(n),
            Some(Ok(_)) => "out of range",
            Some(Err(_)) => "not a whole number",
        };
        let any = range == (i64::MIN..=i64::MAX);
        let range = NumberRange { least: *range.start(), most: *range.end() };
        Err(BadProperty { range: Some(range).filter(|_| !any), ..bad(key, why) })
    }

    /// Takes a property as `true` or `false`.
    ///
    /// # Errors
    /// [`BadProperty`] if it is neither.
    pub fn flag(&mut self, key: &str, default: bool) -> Result<bool, BadProperty> {
        match self.text(key) {
            None => Ok(default),
            Some("true") => Ok(true),
            Some("false") => Ok(false),
            Some(_) => Err(bad(key, "neither true nor false")),
        }
    }

    /// Takes a property that must be one of `choices`; gives its index.
    ///
    /// # Errors
    /// [`BadProperty`] if it is none of them.
    pub fn choice(
        &mut self,
        key: &str,
        default: usize,
        choices: &[&str],
    ) -> Result<usize, BadProperty> {
        match self.text(key) {
            None => Ok(default),
            Some(text) => choices
                .iter()
                .position(|choice| *choice == text)
                .ok_or_else(|| bad(key, "not one of the values this property can have")),
        }
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// [`BadProperty`] naming the first key that nobody took.
    pub fn finish(self) -> Result<(), BadProperty> {
        match self.pairs.iter().find(|(_, _, taken)| !taken) {
            Some((key, _, _)) => Err(bad(key, "unknown property")),
            None => Ok(()),
        }
    }
}

/// A [`BadProperty`] at `key`.
pub fn bad(key: &str, why: &'static str) -> BadProperty {
    BadProperty { key: key.to_owned(), why, range: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_told_what_it_may_be() {
        let said = |value: &'static str, range| {
            Properties::new([("n", value)]).number("n", 0, range).unwrap_err().to_string()
        };
        assert_eq!(said("0", 1..=9), "n: out of range (1 to 9)");
        assert_eq!(said("64M", 1..=9), "n: not a whole number (1 to 9)");
        assert_eq!(said("-2", -1..=i64::MAX), "n: out of range (-1 or more)");
        assert_eq!(said("3", i64::MIN..=2), "n: out of range (2 or less)");
        assert_eq!(said("x", i64::MIN..=i64::MAX), "n: not a whole number");
    }

    #[test]
    fn the_bad_key_is_named() {
        let pairs = [("linger.ms", "5"), ("acks", "two"), ("lingr.ms", "1")];
        let mut p = Properties::new(pairs);
        assert_eq!(p.number("linger.ms", 0, 0..=1000), Ok(5));
        assert_eq!(p.number("batch.size", 16384, 0..=1 << 20), Ok(16384));
        assert_eq!(p.choice("acks", 0, &["all", "1", "0"]).unwrap_err().key, "acks");
        assert_eq!(p.finish(), Err(bad("lingr.ms", "unknown property")));
    }
}
