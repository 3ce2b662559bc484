//! What the table says about one option. Its JSON drives the command line, the help, `index.d.ts` and the README.

use serde::Serialize;

/// One option: a flag on the command line, a camelCase property in JavaScript.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OptionSpec {
    /// The flag without its dashes, e.g. `batch-size`.
    pub name: &'static str,
    /// Other published names of the same option.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub aliases: &'static [&'static str],
    #[serde(flatten)]
    pub kind: Kind,
    /// How help writes the value, e.g. `N`; empty for a flag and for a choice, whose words stand there.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub value: &'static str,
    /// The default as help shows it; `None` where leaving it out means "off" or is an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<&'static str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub required: bool,
    /// The heading it stands under.
    pub group: &'static str,
    pub surface: Surface,
    pub commands: &'static [&'static str],
    /// One paragraph, the same everywhere.
    pub doc: &'static str,
}

/// The type of a value, with the range it must lie in.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum Kind {
    Flag,
    Path,
    Text,
    /// Names separated by commas; an array in JavaScript.
    List,
    /// A whole number of at least `min`.
    Integer {
        min: u64,
        max: u64,
    },
    /// A finite number with `above` < value or `min` <= value, and value < `below`.
    Number {
        #[serde(skip_serializing_if = "Option::is_none")]
        above: Option<f64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        min: Option<f64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        below: Option<f64>,
    },
    /// One word of `choices`. Words of `elsewhere` are known but not in this version: the engine refuses them by name.
    Choice {
        choices: &'static [&'static str],
        #[serde(skip_serializing_if = "<[_]>::is_empty")]
        elsewhere: &'static [&'static str],
    },
    /// A number of steps, or a share of all steps such as `3%`.
    Steps,
    /// Numbers of layers such as `0-7,12`, or the last few, `last:8`; also an array of numbers in JavaScript.
    Layers,
    /// `pattern=number` separated by commas; an object in JavaScript. Numbers are greater than 0, and whole when so told.
    Pattern {
        whole: bool,
    },
    /// A number of steps, or of minutes such as `10m`.
    Interval,
}

/// Where an option can be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Surface {
    Everywhere,
    /// About what the terminal shows; JavaScript has the events instead.
    CommandLine,
    /// The argument of the command on the command line, which needs no flag.
    JavaScript,
}

impl OptionSpec {
    /// An option of `train` without aliases, for use everywhere; the builder methods below change that.
    pub(super) const fn new(name: &'static str, kind: Kind, value: &'static str) -> Self {
        OptionSpec {
            name,
            aliases: &[],
            kind,
            value,
            default: None,
            required: false,
            group: "",
            surface: Surface::Everywhere,
            commands: &["train", "plan"],
            doc: "",
        }
    }

    pub(super) const fn aliases(mut self, aliases: &'static [&'static str]) -> Self {
        self.aliases = aliases;
        self
    }

    pub(super) const fn default(mut self, text: &'static str) -> Self {
        self.default = Some(text);
        self
    }

    pub(super) const fn required(mut self) -> Self {
        self.required = true;
        self
    }

    pub(super) const fn command_line(mut self) -> Self {
        self.surface = Surface::CommandLine;
        self
    }

    pub(super) const fn java_script(mut self) -> Self {
        self.surface = Surface::JavaScript;
        self
    }

    pub(super) const fn commands(mut self, commands: &'static [&'static str]) -> Self {
        self.commands = commands;
        self
    }

    pub(super) const fn doc(mut self, doc: &'static str) -> Self {
        self.doc = doc;
        self
    }

    pub(super) const fn group(mut self, group: &'static str) -> Self {
        self.group = group;
        self
    }

    /// The property in JavaScript: `batch-size` is `batchSize`.
    pub fn property(&self) -> String {
        camel_case(self.name)
    }
}

pub(super) fn camel_case(flag: &str) -> String {
    let mut words = flag.split('-');
    let mut name = words.next().unwrap_or_default().to_string();
    for word in words {
        let (first, rest) = word.split_at(word.len().min(1));
        name.push_str(&first.to_ascii_uppercase());
        name.push_str(rest);
    }
    name
}
