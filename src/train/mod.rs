//! The training loop: schedule, steps, events. What a run is made of comes from `run/`, what it leaves goes to `export/`.

pub mod checkpoint;
mod event;
mod interval;
mod options;
mod progress;
mod schedule;
mod trainer;
mod values;

pub use event::{Event, Listener, SampleMoment, Status};
pub use interval::{Every, Interval};
pub use options::{BUILT_IN, TrainOptions};
pub use progress::{Best, Losses, Progress};
pub use schedule::{Schedule, Shape};
pub use trainer::{Outcome, Settings, Trainer};
pub use values::{
    CheckpointingOption, EosOption, LayerList, OnOff, OptimizerName, PrecisionOption, TargetList,
    Warmup,
};
