//! `report.html`: a run as one page that needs nothing else, written anew now and then while it goes.

mod curve;
mod facts;

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::format::atomic;
use facts::Facts;

/// The page with its style, its program and uPlot: `npm run generate` makes it of the files in report/.
const TEMPLATE: &str = include_str!("template.html");
/// Where the facts of the run go.
const PLACE: &str = "RUN_AS_JSON";

/// Time between two writings: the page is some hundred kilobytes, and its disk may be an SD card.
const EVERY: Duration = Duration::from_secs(30);

pub struct Report {
    path: PathBuf,
    settings: Value,
    facts: Facts,
    written: Option<Instant>,
}

impl Report {
    /// The report at `path` of a run with `settings`, with what its file of events at `metrics` has so far.
    pub fn open(path: PathBuf, settings: Value, metrics: &Path) -> Result<Report> {
        let text = std::fs::read(metrics).map_err(|cause| Error::file("read", metrics, &cause))?;
        let mut facts = Facts::new();
        for line in text.split(|byte| *byte == b'\n') {
            if let Ok(event) = serde_json::from_slice(line) {
                facts.add(&event);
            }
        }
        Ok(Report {
            path,
            settings,
            facts,
            written: None,
        })
    }

    /// Takes the next event, a JSON object, and writes the page at the start, at the end, and else when it is old.
    pub fn event(&mut self, line: &[u8]) -> io::Result<()> {
        let event = serde_json::from_slice(line)?;
        self.facts.add(&event);
        let old = self.written.is_none_or(|at| at.elapsed() >= EVERY);
        if old || event["type"] == "end" {
            self.write(None)?;
        }
        Ok(())
    }

    /// Writes the page of a run that has ended with an error.
    pub fn failed(&mut self, error: &Error) -> io::Result<()> {
        self.write(Some(error))
    }

    fn write(&mut self, error: Option<&Error>) -> io::Result<()> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let mut facts = self.facts.json();
        facts["version"] = env!("CARGO_PKG_VERSION").into();
        facts["writtenMs"] = (now.unwrap_or_default().as_millis() as u64).into();
        facts["settings"] = self.settings.clone();
        if let Some(error) = error {
            facts["error"] = json!({ "message": error.message, "hint": error.hint });
        }
        let page = page(&facts);
        atomic::write_bytes(&self.path, page.as_bytes())
            .map_err(|error| io::Error::other(error.message))?;
        self.written = Some(Instant::now());
        Ok(())
    }
}

/// No text of a user may end the script element that holds it.
fn page(facts: &Value) -> String {
    let json = facts.to_string().replace('<', "\\u003c");
    TEMPLATE.replacen(PLACE, &json, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_cannot_leave_its_place_in_the_page() {
        let evil = "</script><script>alert(1)</script><!-- RUN_AS_JSON";
        let page = page(&json!({ "text": evil }));
        let count = |text: &str| page.matches(text).count();
        assert_eq!(count("alert(1)"), 1);
        assert_eq!(count("<script>alert"), 0);
        assert_eq!(count("</script"), TEMPLATE.matches("</script").count());
    }

    #[test]
    fn the_page_needs_nothing_from_elsewhere() {
        assert_eq!(TEMPLATE.matches(PLACE).count(), 1);
        for outside in [
            "src=",
            "href=",
            "@import",
            "url(",
            "fetch(",
            "XMLHttpRequest",
        ] {
            assert!(!TEMPLATE.contains(outside), "{outside}");
        }
    }

    #[test]
    fn a_report_goes_on_with_the_events_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let (metrics, path) = (folder.path().join("m.jsonl"), folder.path().join("r.html"));
        std::fs::write(
            &metrics,
            "{\"type\":\"step\",\"step\":1,\"tokens\":5}\n{\"type\":\"st",
        )
        .unwrap();
        let mut report = Report::open(path.clone(), json!({ "lr": 0.5 }), &metrics).unwrap();
        report
            .event(b"{\"type\":\"step\",\"step\":2,\"tokens\":7}\n")
            .unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains("\"tokens\":12,"), "sum of both steps");
        // Written just now, so the next event waits; the end does not.
        report
            .event(b"{\"type\":\"eval\",\"step\":2,\"loss\":1.5}\n")
            .unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        report.event(b"{\"type\":\"end\",\"steps\":2}\n").unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains("\"loss\":1.5") && text.contains("\"steps\":2"));
    }
}
