//! Properties: configuration by Kafka's own names, checked at creation. The key that is wrong is
//! named; a key that nobody took is refused.

/// What is wrong with a configuration, and at which key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadProperty {
    /// The property's name.
    pub key: String,
    /// What is wrong with it.
    pub why: &'static str,
}

impl core::fmt::Display for BadProperty {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}: {}", self.key, self.why)
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
        match self.text(key).map(str::parse::<i64>) {
            None => Ok(default),
            Some(Ok(n)) if range.contains(&n) => Ok(n),
            Some(Ok(_)) => Err(bad(key, "out of range")),
            Some(Err(_)) => Err(bad(key, "not a whole number")),
        }
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
    BadProperty { key: key.to_owned(), why }
}

#[cfg(test)]
mod tests {
    use super::*;

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
