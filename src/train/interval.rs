//! How often something is done: every so many steps, or minutes.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::bail;
use crate::error::Result;

/// Steps, or minutes such as "10m"; as JavaScript hands it over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Interval {
    Steps(usize),
    Text(String),
}

/// What an [`Interval`] means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Every {
    Never,
    Steps(usize),
    Time(Duration),
}

impl Interval {
    /// Zero steps or minutes mean never.
    ///
    /// Errors: `USAGE` for a text that is neither a number nor a number of minutes.
    pub fn every(&self) -> Result<Every> {
        let text = match self {
            Interval::Steps(0) => return Ok(Every::Never),
            Interval::Steps(steps) => return Ok(Every::Steps(*steps)),
            Interval::Text(text) => text.trim(),
        };
        if let Ok(steps) = text.parse() {
            return Interval::Steps(steps).every();
        }
        let minutes = text.strip_suffix('m').map(str::parse::<u32>);
        match minutes {
            Some(Ok(0)) => Ok(Every::Never),
            Some(Ok(minutes)) => Ok(Every::Time(Duration::from_secs(60 * u64::from(minutes)))),
            _ => bail!(
                Usage,
                "save-every {text:?} is neither a number of steps nor of minutes such as 10m"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_steps_or_minutes() {
        let every = |text: &str| Interval::Text(text.to_owned()).every();
        assert_eq!(Interval::Steps(7).every().unwrap(), Every::Steps(7));
        assert_eq!(every("7").unwrap(), Every::Steps(7));
        let ten = Duration::from_secs(600);
        assert_eq!(every("10m").unwrap(), Every::Time(ten));
        assert_eq!(every("0m").unwrap(), Every::Never);
        assert_eq!(Interval::Steps(0).every().unwrap(), Every::Never);
        for wrong in ["", "m", "1.5m", "10s", "-1m"] {
            assert!(every(wrong).is_err(), "{wrong}");
        }
    }
}
